import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { peakMemory } from '../../bench/cpu-time.ts';
import { send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { accountsFile, Folder, globexEntry, sidecarFile } from '../support/folder.ts';
import { listen } from '../support/listen.ts';
import { tracingBound } from '../support/memory-bound.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

/** More requests than the number of spans that may wait for the collector. */
const requests = 3_000;

/** Sends the requests to a sidecar with these settings. Returns its peak memory in bytes. */
async function peakWith(settings: Readonly<Record<string, unknown>>): Promise<number> {
  const { origin } = await startUpstream();
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin, settings),
    'accounts.yaml': accountsFile(globexEntry(keys.globex)),
  });
  const sidecar = await startServe(folder.file('sidecar.yaml'), {
    nodeOptions: ['--max-semi-space-size=16', '--initial-heap-size=64'],
    // The image sets this, too.
    env: { MALLOC_ARENA_MAX: '1' },
  });
  for (let sent = 0; sent < requests; sent += 20) {
    const responses = await Promise.all(Array.from({ length: 20 }, () => send(sidecar, 'GET /', { key: keys.globex })));
    for (const { status } of responses) expect(status).toBe(200);
  }
  return peakMemory(sidecar.process.pid ?? 0);
}

test('tracing takes no more memory than docs/operators/capacity.md says, even if the collector does not respond', async () => {
  const collector = await listen(createServer(() => {}));
  const without = await peakWith({});
  const grown = (await peakWith({ tracing: { otlp: `http://127.0.0.1:${collector}`, sample: 1 } })) - without;
  expect(grown).toBeLessThan(tracingBound);
  const guide = readFileSync('docs/operators/capacity.md', 'utf8');
  expect(guide).toContain(`\n- ${tracingBound / 1_048_576} MiB, with \`tracing\`: `);
  // If tracing needed less, the page would ask for too much memory.
  expect(grown).toBeGreaterThan(tracingBound / 8);
});
