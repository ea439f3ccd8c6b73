import { once } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { LookupResult, KeyDirectory } from '../../src/accounts/key-directory.ts';
import type * as Directories from '../../src/accounts/file/directory.ts';
import { configOf, keys, route, startSidecar } from '../support/sidecar.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

const asked = vi.hoisted(() => ({ times: 0, isAway: false }));

vi.mock('../../src/accounts/file/directory.ts', async (load) => {
  const original = await load<typeof Directories>();
  return {
    memoryDirectory: (...args: Parameters<typeof original.memoryDirectory>): KeyDirectory => {
      const directory = original.memoryDirectory(...args);
      const find = (hash: string): LookupResult | Promise<LookupResult> => {
        asked.times += 1;
        return asked.isAway ? 'unavailable' : directory.find(hash);
      };
      return { ...directory, find };
    },
  };
});

test('a WebSocket stays open while its key is known to be valid, and ends when an outage has lasted too long for that to be known', async () => {
  const upstream = await startWebSocketUpstream();
  const routes = [route('/ws', { upgrade: true, keys: ['secret'] })];
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  const headers = { Authorization: `Bearer ${keys.globex}` };
  const socket = new WebSocket(`ws://127.0.0.1:${sidecar.port}/ws`, { headers });
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  const { times } = asked;
  await vi.waitFor(() => expect(asked.times).toBeGreaterThan(times + 1), 5_000);
  socket.send('still here');
  const [data] = (await once(socket, 'message')) as [Buffer];
  expect(String(data)).toBe('still here');
  asked.isAway = true;
  await once(socket, 'close');
  await vi.waitFor(() => expect(sidecar.accessLines().at(-1)).toMatchObject({ closed: 'revoked' }));
});
