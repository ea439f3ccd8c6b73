import { expect, test, vi } from 'vitest';
import { openConnection } from '../support/connection.ts';
import { authorization, post, request, valid } from '../support/refused.ts';
import { configOf, route, startSidecar } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const handshake = request(
  'GET /ws HTTP/1.1',
  'Host: localhost',
  authorization,
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
);

test.each([
  ['a request', valid],
  ['a WebSocket handshake', handshake],
])('%s that follows a refused request on a closing connection is not forwarded', async (_name, next) => {
  const upstream = await startUpstream();
  const routes = [route('/ws', { upgrade: true }), route('/*')];
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  const client = await openConnection(sidecar.port);
  const body = 'x'.repeat(65_000);
  // The kernel's buffer grows with what is sent, until it has room for more than Node reads at once.
  for (let i = 1; i <= 4; i += 1) {
    await client.send(post(`Content-Length: ${body.length}`) + body).untilText('{"ok":true}', i);
  }
  // The refused request fills one read of 64 KiB; Node reads again before the connection is closed.
  const refused = (padding: string): string =>
    request('POST /a/../b HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`, `X: ${padding}`) + body;
  client.send(refused('x'.repeat(65_536 - refused('').length)) + next);
  await client.untilEnded();
  await (await openConnection(sidecar.port)).send(valid).untilText('{"ok":true}');
  expect(upstream.heads()).toBe(4 + 1);
  const statuses = [200, 200, 200, 200, 400, 200];
  await vi.waitFor(() => expect(sidecar.accessLines().map(({ status }) => status)).toEqual(statuses));
});
