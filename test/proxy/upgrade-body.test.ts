import { describe, expect, test, vi } from 'vitest';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, request } from '../support/refused.ts';
import { configOf, route, startSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const routes = [route('/ws', { upgrade: true, keys: ['public', 'secret'] })];
const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** Starts a sidecar and an upstream that switches protocols on every request. */
async function start() {
  const upstream = await startByteUpstream(({ socket }) => void socket.write(switching));
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  return { upstream, sidecar };
}

/** Bodies, each with how it arrives, its framing, and the pieces that are sent one after another. */
const bodies: readonly (readonly [name: string, framing: string, ...pieces: readonly string[]])[] = [
  ['with the head', 'Content-Length: 5', 'hello'],
  ['later', 'Content-Length: 5', '', 'hello', 'x'],
  ['in halves', 'Content-Length: 5', 'he', 'llo'],
  ['never', 'Content-Length: 5'],
  ['too long', 'Content-Length: 5', '', 'hello world'],
  ['in chunks', 'Transfer-Encoding: chunked', '', '5\r\nhello\r\n0\r\n\r\n'],
  ['in bad chunks', 'Transfer-Encoding: chunked', '', 'zz\r\n'],
  ['in chunks that never come', 'Transfer-Encoding: chunked'],
];

test('a GET with a body and an Upgrade that Connection does not nominate is forwarded without the Upgrade', async () => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  const client = await openConnection(sidecar.port);
  client.send(
    `${request('GET /ws HTTP/1.1', 'Host: localhost', authorization, 'Upgrade: websocket', 'Content-Length: 5')}hello`,
  );
  expect(parseOnly(await client.untilText('{"ok":true}')).status).toBe(200);
  expect(upstream.seen).toMatchObject([{ url: '/ws', body: 'hello' }]);
  expect(upstream.seen[0]?.headers).not.toHaveProperty('upgrade');
});

describe('a WebSocket handshake with a body is refused', () => {
  describe.each([
    ['without a key', []],
    ['with a key', [authorization]],
  ])('%s', (_name, identity) => {
    test.each(bodies)('if the body comes %s', async (_how, framing, ...pieces) => {
      const { upstream, sidecar } = await start();
      const client = await openConnection(sidecar.port);
      client.send(request('GET /ws HTTP/1.1', 'Host: localhost', ...identity, ...upgrade, framing) + (pieces[0] ?? ''));
      for (const piece of pieces.slice(1)) {
        await settle();
        client.send(piece);
      }
      const response = parseOnly(await client.untilText('}'));
      expect(JSON.parse(response.body)).toMatchObject({ code: 'ambiguous_request' });
      expect(response.headers['connection']).toBe('close');
      client.socket.resetAndDestroy();
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
      expect(upstream.connections).toEqual([]);
    });
  });

  test('but accepted if the body is empty', async () => {
    const { sidecar } = await start();
    const client = await openConnection(sidecar.port);
    client.send(request('GET /ws HTTP/1.1', 'Host: localhost', authorization, ...upgrade, 'Content-Length: 0'));
    expect(await client.untilText('\r\n\r\n')).toMatch(/^HTTP\/1\.1 101 /);
  });
});

test.each(['Upgrade: h2c', 'Upgrade: websocket, h2c'])('%s on a request with a body is ignored', async (other) => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  const client = await openConnection(sidecar.port);
  client.send(
    `${request('POST /ws HTTP/1.1', 'Host: localhost', authorization, 'Connection: Upgrade', other, 'Content-Length: 2')}{}`,
  );
  expect(await client.untilText('{"ok":true}')).toMatch(/^HTTP\/1\.1 200 /);
  expect(upstream.seen).toMatchObject([{ method: 'POST', body: '{}' }]);
});

test.each([
  ['over HTTP/1.0', 'GET /ws HTTP/1.0'],
  ['with another method', 'POST /ws HTTP/1.1'],
])('a WebSocket handshake %s is an ordinary request', async (_name, line) => {
  const upstream = await startUpstream();
  const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
  const client = await openConnection(sidecar.port);
  client.send(request(line, 'Host: localhost', authorization, ...upgrade));
  expect(await client.untilText('{"ok":true}')).toMatch(/^HTTP\/1\.1 200 /);
  expect(upstream.seen[0]?.headers).not.toHaveProperty('upgrade');
});

describe('CONNECT with a body is refused', () => {
  test.each(bodies)('if the body comes %s', async (_how, framing, ...pieces) => {
    const { upstream, sidecar } = await start();
    for (const ending of ['reset', 'end'] as const) {
      const client = await openConnection(sidecar.port);
      client.send(request('CONNECT x:1 HTTP/1.1', 'Host: localhost', authorization, framing) + (pieces[0] ?? ''));
      for (const piece of pieces.slice(1)) {
        await settle();
        client.send(piece);
      }
      expect(await client.untilText('}')).toMatch(/"code":"(?:ambiguous|malformed)_request"/);
      if (ending === 'reset') client.socket.resetAndDestroy();
      else client.socket.end();
      await settle();
      client.send('more');
      await settle();
    }
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(upstream.connections).toEqual([]);
  });
});
