import { expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { startServe } from '../support/command.ts';
import { openConnection } from '../support/connection.ts';
import { eventually } from '../support/eventually.ts';
import { accountsFile, acmeEntry, Folder, sidecarFile } from '../support/folder.ts';
import { jumpingClock } from '../support/jumping-clock.ts';
import { keys } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const day = 86_400_000;
const expiring = 'sk_test_expiringinthirtydays';

test('moving the wall clock affects the expiry of keys, but no deadline', async () => {
  let respondSlowly: (() => void) | undefined;
  const { origin } = await startUpstream(({ url }, res) => {
    const response = (): void => void res.end('{"ok":true}');
    if (url === '/slow') respondSlowly = response;
    else response();
  });
  const globex = {
    id: 'globex',
    name: 'Globex',
    keys: [
      { id: 'globex-0', key: keys.globex, createdAt: '2020-01-01' },
      { id: 'globex-1', key: expiring, createdAt: '2020-01-01', expiresAt: new Date(Date.now() + 30 * day) },
    ],
  };
  const folder = new Folder({
    'sidecar.yaml': sidecarFile(origin, { timeouts: { request: '500ms' } }),
    'accounts.yaml': accountsFile(acmeEntry, globex),
  });
  const sidecar = await startServe(folder.file('sidecar.yaml'), { nodeOptions: jumpingClock(365, -730) });
  const statusWith = async (key: string): Promise<number> => (await send(sidecar, 'GET /x', { key })).status;
  const untilStatus = async (key: string, status: number): Promise<void> => {
    await eventually(`a request gets ${status}`, async () => (await statusWith(key)) === status);
  };
  expect(await statusWith(expiring)).toBe(200);

  const connection = await openConnection(sidecar.port);
  connection.send(`GET /slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n\r\n`);
  await eventually('the upstream has the slow request', () => respondSlowly !== undefined);
  sidecar.signal('SIGUSR2');
  await untilStatus(expiring, 401);
  expect(await statusWith(keys.globex)).toBe(200);
  // Once this request has timed out, the sweep for expired deadlines must have run after the clock was moved.
  const swept = await openConnection(sidecar.port);
  const head = `POST /api/s2s/charge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.acme}\r\n`;
  swept.send(`${head}Content-Length: 100\r\n\r\n{"data":`);
  expect(await swept.untilText('"code":')).toMatch(/^HTTP\/1\.1 408 /);
  respondSlowly?.();
  expect(await connection.untilText('{"ok":true}')).toMatch(/^HTTP\/1\.1 200 /);

  sidecar.signal('SIGUSR2');
  await untilStatus(expiring, 200);
  connection.received = '';
  connection.send(`GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n\r\n`);
  expect(await connection.untilText('{"ok":true}')).toMatch(/^HTTP\/1\.1 200 /);
  // If deadlines depended on the wall clock, this one would be two years away.
  const unfinished = await openConnection(sidecar.port);
  unfinished.send(`${head}Content-Length: 100\r\n\r\n{"data":`);
  expect(await unfinished.untilText('"code":')).toMatch(/^HTTP\/1\.1 408 /);

  const times = sidecar.entries('request').map(({ time }) => Date.parse(String(time)) - Date.now());
  expect(Math.max(...times)).toBeGreaterThan(364 * day);
  expect(Math.min(...times)).toBeLessThan(-364 * day);
  expect(await sidecar.signal('SIGTERM').ended()).toEqual({ code: 0, signal: null });
});
