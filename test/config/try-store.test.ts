import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { tryStore } from '../../src/config/try-store.ts';
import { listen } from '../support/listen.ts';

test('a database that does not respond is given up after three seconds, during which a key that is revoked in the file in force still works', async () => {
  const sockets: Socket[] = [];
  const port = await listen(createServer((socket) => sockets.push(socket)));
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  const keys = { masterKeys: [], auditKeys: [] };
  const file = { type: 'file', file: '/accounts.yaml', ...keys } as const;
  const url = `postgres://u:p@127.0.0.1:${port}/d`;
  const began = performance.now();
  const refused = await tryStore({ type: 'postgres', url, cache: 1, staleFor: 1, ...keys }, file, 0);
  expect(refused).toMatchObject({ reason: 'the database did not respond within 3 seconds', mayEnd: false });
  expect(performance.now() - began).toBeLessThan(4_500);
});
