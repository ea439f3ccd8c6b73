import { expect, test } from 'vitest';
import { peakMemory, residentMemory } from '../../bench/cpu-time.ts';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, sidecarFile } from '../support/folder.ts';
import { fileThreadsBound } from '../support/memory-bound.ts';
import { startUpstream } from '../support/upstream.ts';
import { ask, token } from './api.ts';

const mib = 1_048_576;
const count = 300;

test('the threads that read and change an accounts file for operators take no more than docs/operators/capacity.md says', async () => {
  const { origin } = await startUpstream();
  const hash = (i: number, key: number): string => `${i}${key}`.padStart(64, '0');
  const accounts = Array.from({ length: count }, (_, i) => ({
    id: `a${i}`,
    name: `Merchant ${i}`,
    keys: [1, 2, 3].map((key) => ({
      id: `k${i}-${key}`,
      prefix: 'sk_live_',
      sha256: hash(i, key),
      createdAt: '2026-11-01',
    })),
  }));
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin, { operators: { port: 0, token } }),
    'accounts.yaml': accountsFile(...accounts),
  });
  const flags = ['--max-semi-space-size=16', '--initial-heap-size=64'];
  const sidecar = await startServe(folder.file('sidecar.yaml'), {
    nodeOptions: flags,
    // The image sets this, too.
    env: { MALLOC_ARENA_MAX: '1' },
  });
  const { port } = sidecar.entries('listening').find(({ listener }) => listener === 'operators') ?? {};
  const url = `http://127.0.0.1:${String(port)}/api/v1`;
  const { pid = 0 } = sidecar.process;
  const before = residentMemory(pid);
  for (let i = 0; i < 12; i += 1) {
    const responses = await Promise.all([
      ask(url, `POST /accounts/a${i}/keys/k${i}-1/revoke`),
      ask(url, `POST /accounts/a${i}/keys`, { body: { environment: 'live', kind: 'secret' } }),
      ask(url, `GET /accounts/a${i}`),
      ask(url, 'GET /audit'),
    ]);
    expect(responses.map(({ status }) => status)).toEqual([200, 201, 200, 200]);
  }
  const grown = peakMemory(pid) - before;
  expect(grown).toBeLessThan(fileThreadsBound({ semiSpace: 16 * mib, initialHeap: 64 * mib, accounts: count }));
  // If the threads needed less, the page would ask for too much memory.
  expect(grown).toBeGreaterThan(64 * mib);
});
