import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { nextTurn } from '../../src/http1/incoming.ts';
import type { Account } from '../../src/accounts/account.ts';
import { findRefusal } from '../../src/errors.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { parseAddress } from '../../src/upstream/connect.ts';
import { upgrade } from '../../src/upstream/upgrade.ts';
import { ignored } from '../support/ask-upstream.ts';
import { startByteUpstream, startSilentUpstream } from '../support/byte-upstream.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { refusingPort } from '../support/free-port.ts';
import { listen } from '../support/listen.ts';
import { inFlight } from '../support/metrics.ts';
import {
  acme,
  apiKey,
  configOf,
  globex,
  keys,
  route,
  routes,
  startSidecar,
  targetOf,
  type TestSidecar,
} from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { startWebSocketUpstream } from '../support/web-socket-upstream.ts';

const webSocketRoute = route('/ws/*', { upgrade: true });

function settings(more: Parameters<typeof configOf>[1] = {}): Parameters<typeof configOf>[1] {
  return { routes: [...routes, webSocketRoute], ...more };
}

/** Starts a WebSocket upstream and a sidecar in front of it. */
async function startEcho(more: Parameters<typeof configOf>[1] = {}) {
  const upstream = await startWebSocketUpstream();
  return { upstream, sidecar: await startSidecar(configOf(upstream.origin, settings(more))) };
}

/** Starts a sidecar in front of an upstream at `origin`, and a client that sends it a handshake. */
async function startHandshake(origin: string, more: Parameters<typeof configOf>[1] = {}) {
  const sidecar = await startSidecar(configOf(origin, settings(more)));
  const client = await openConnection(sidecar.port);
  client.send(handshake('/ws/feed', authorization));
  return { sidecar, client };
}

/** Opens a WebSocket of globex, which is closed when the test is over. */
function connect(
  sidecar: TestSidecar,
  path = '/ws/feed',
  headers: Record<string, string> = { Authorization: `Bearer ${keys.globex}` },
): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${sidecar.port}${path}`, ['pay.v1'], { headers });
  socket.on('error', () => {});
  onTestFinished(() => socket.terminate());
  return socket;
}

async function echoed(socket: WebSocket, message: string | Buffer): Promise<string | Buffer> {
  const response = once(socket, 'message');
  socket.send(message);
  const [data, isBinary] = (await response) as [Buffer, boolean];
  return isBinary ? data : data.toString();
}

/** The bytes of a WebSocket handshake. */
function handshake(path: string, ...headers: readonly string[]): string {
  return [
    `GET ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ...headers,
    '',
    '',
  ].join('\r\n');
}
const authorization = `Authorization: Bearer ${keys.globex}`;

describe('a WebSocket on a route with `upgrade`', () => {
  test('carries messages both ways', async () => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    expect(socket.protocol).toBe('pay.v1');
    expect(await echoed(socket, 'hello')).toBe('hello');
    const large = Buffer.alloc(20 << 20, 'x');
    expect(large.equals((await echoed(socket, large)) as Buffer)).toBe(true);
    const pushed = once(socket, 'message');
    upstream.sockets[0]?.send('unasked');
    expect(String((await pushed)[0])).toBe('unasked');
  });

  test.each(['http', 'https'])('delivers everything to a side that does not read for a while: %s', async (scheme) => {
    const authority = createAuthority();
    const tls = scheme === 'https' ? { ...authority.issue('IP:127.0.0.1'), clientCa: undefined } : undefined;
    const upstream = await startWebSocketUpstream();
    const sidecar = await startSidecar(
      configOf(upstream.origin, settings({ listen: { host: '127.0.0.1', port: 0, tls } })),
    );
    const client = new WebSocket(`${scheme.replace('http', 'ws')}://127.0.0.1:${sidecar.port}/ws/feed`, {
      ca: authority.cert,
      headers: { Authorization: `Bearer ${keys.globex}` },
    });
    onTestFinished(() => client.terminate());
    await once(client, 'open');
    const long = Buffer.alloc(32 << 20, 'x');
    const core = upstream.sockets[0] as WebSocket;
    core.removeAllListeners('message');
    for (const [from, to] of [
      [client, core],
      [core, client],
      [client, core],
    ] as const) {
      to.pause();
      from.send(long);
      const { promise: isRead, resolve } = Promise.withResolvers<Buffer>();
      to.once('message', resolve);
      await setTimeout(300);
      expect(from.bufferedAmount).toBeGreaterThan(0);
      to.resume();
      expect(long.equals(await isRead)).toBe(true);
    }
  });

  test('carries thousands of short messages in their order', async () => {
    const { sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    const messages = Array.from({ length: 3_000 }, (_, i) => `${i}`.repeat(i % 100 === 0 ? 40 : 1));
    const received: string[] = [];
    socket.on('message', (data: Buffer) => received.push(data.toString()));
    for (const message of messages) socket.send(message);
    await vi.waitFor(() => expect(received).toHaveLength(messages.length), { timeout: 10_000 });
    expect(received).toEqual(messages);
  });

  test('reaches the upstream with the identity headers of the sidecar, not those of the client', async () => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar, '/ws/feed', {
      Authorization: `Bearer ${keys.globex}`,
      'X-Request-Id': 'id-1',
      'X-Account-Id': 'evil',
      X_Account_Id: 'evil',
      'X-Forwarded-For': '6.6.6.6',
    });
    const [response] = (await once(socket, 'upgrade')) as [IncomingMessage];
    expect(response.headers['x-request-id']).toBe('id-1');
    await vi.waitFor(() => expect(upstream.handshakes).toHaveLength(1));
    const seen = upstream.handshakes[0]?.headers;
    expect(seen).toMatchObject({
      'x-account-id': 'globex',
      'x-api-key-id': 'sk_test-globex',
      'x-api-key-kind': 'secret',
      'x-environment': 'test',
      'x-request-id': 'id-1',
      'x-forwarded-for': '127.0.0.1',
      host: `127.0.0.1:${sidecar.port}`,
      'sec-websocket-protocol': 'pay.v1',
    });
    expect(JSON.stringify(seen)).not.toContain('evil');
    expect(seen).not.toHaveProperty('authorization');
  });

  test('gets the end-to-end headers of the 101 without those that only the sidecar may send', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      const lines = [
        'HTTP/1.1 101 Switching Protocols',
        'Connection: Upgrade, X-Nominated',
        'Upgrade: websocket',
        'Envelope: sealed',
        'Envelope-Credentials: current',
        'envelope-other: forged',
        'X-Request-Id: forged',
        'X-Nominated: a',
        'Keep-Alive: timeout=5',
        'Sec-WebSocket-Accept: abc',
        'Set-Cookie: a=1',
        'Set-Cookie: b=2',
      ];
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    });
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(
      `GET /ws/feed HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\nX-Request-Id: id-1\r\n` +
        'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n',
    );
    const [statusLine, ...lines] = (await client.untilText('\r\n\r\n')).trim().toLowerCase().split('\r\n');
    expect(statusLine).toBe('http/1.1 101 switching protocols');
    expect(lines.toSorted()).toEqual([
      'connection: upgrade',
      'sec-websocket-accept: abc',
      'set-cookie: a=1',
      'set-cookie: b=2',
      'upgrade: websocket',
      'x-request-id: id-1',
    ]);
  });

  test('is in flight while it is open, and has one access line', async () => {
    const { sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    expect(await inFlight(sidecar)).toBe(1);
    expect(sidecar.accessLines()).toEqual([]);
    socket.close();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    expect(sidecar.accessLines()).toMatchObject([{ status: 101, route: '/ws/*', account: 'globex' }]);
  });

  test.each([
    '/ws/http:/x',
    '/ws/https:/x/y',
    '/ws/a%20b',
    '/ws/@x:y',
    '/ws/',
    '/ws',
    '/ws/x?to=http://a//b/../c&d=%2F',
  ])('reaches the upstream with its path unchanged: %s', async (path) => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar, path);
    await once(socket, 'open');
    expect(upstream.handshakes[0]?.url).toBe(path);
  });

  test('carries the bytes that the client sent right after the handshake', async () => {
    const { sidecar } = await startEcho();
    const client = await openConnection(sidecar.port);
    // A text frame `hi`, with a mask of zeros.
    client.send(`${handshake('/ws/feed', authorization)}\x81\x82\0\0\0\0hi`);
    expect(await client.untilText('\x81\x02hi')).toMatch(/^HTTP\/1\.1 101 /);
  });

  test('may be requested in any letter case', async () => {
    const { sidecar } = await startEcho();
    const client = await openConnection(sidecar.port);
    client.send(
      handshake('/WS/feed', authorization)
        .replace('Connection: Upgrade', 'connection: keep-alive, UPGRADE')
        .replace('Upgrade: websocket', 'upgrade: WebSocket'),
    );
    expect(await client.untilText('\r\n\r\n')).toMatch(/^HTTP\/1\.1 101 /);
  });

  test('may have headers named like properties of objects', async () => {
    const { upstream, sidecar } = await startEcho();
    const client = await openConnection(sidecar.port);
    client.send(
      handshake('/ws/feed', authorization, 'constructor: a', 'toString: b', '__proto__: c', 'X-Twice: d', 'X-Twice: e'),
    );
    await client.untilText('\r\n\r\n');
    const raw = upstream.handshakes[0]?.rawHeaders ?? [];
    const pairs = raw.flatMap((name, i) => (i % 2 === 0 ? [`${name.toLowerCase()}: ${raw[i + 1]}`] : []));
    const odd = pairs.filter((pair) => /^(?:constructor|tostring|x-twice):/.test(pair));
    expect(odd.toSorted()).toEqual(['constructor: a', 'tostring: b', 'x-twice: d', 'x-twice: e']);
  });

  test('is carried to an upstream with TLS only if its certificate fits the configured name and CA', async () => {
    const authority = createAuthority();
    const { cert, key } = authority.issue('DNS:localhost', 'IP:127.0.0.1');
    const upstream = await startWebSocketUpstream(createHttpsServer({ cert, key }));
    const at = (origin: string, ca: string): Promise<TestSidecar> =>
      startSidecar(
        configOf('', {
          ...settings(),
          environments: [
            {
              name: 'test',
              hosts: [],
              upstream: targetOf(origin, { ca }),
            },
          ],
        }),
      );
    const authorized = { Authorization: `Bearer ${keys.globex}`, Host: 'evil.example' };
    const made = vi.spyOn(process.getBuiltinModule('node:tls'), 'createSecureContext');
    onTestFinished(() => made.mockRestore());
    for (const host of ['localhost', '127.0.0.1']) {
      const sidecar = await at(`https://${host}:${upstream.port}`, authority.cert);
      for (const message of ['hello', 'again']) {
        const socket = connect(sidecar, '/ws/x', authorized);
        await once(socket, 'open');
        expect(await echoed(socket, message)).toBe(message);
      }
    }
    // Each sidecar reads its CAs once for all connections.
    expect(made.mock.calls.filter(([options]) => options?.ca === authority.cert)).toHaveLength(2);
    const socket = connect(await at(`https://localhost:${upstream.port}`, createAuthority().cert), '/ws/x', authorized);
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(502);
  });
});

describe('a WebSocket is closed within seconds', () => {
  const ends: readonly (readonly [name: string, account: Account])[] = [
    ['if its key is removed', { ...globex, keys: [] }],
    ['if its key is revoked', { ...globex, keys: [apiKey(keys.globex, { revokedAt: 1 })] }],
    ['if its account becomes inactive', { ...globex, active: false }],
  ];
  test.each(ends)('%s', async (_name, changed) => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    const other = connect(sidecar, '/ws/feed', { Authorization: `Bearer ${keys.acme}` });
    await once(other, 'open');
    sidecar.app.apply(configOf(upstream.origin, settings({ accounts: [acme, changed] })));
    await once(socket, 'close');
    expect(await echoed(other, 'still here')).toBe('still here');
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 101, account: 'globex' }]));
  });

  test('if its key expires', async () => {
    const upstream = await startWebSocketUpstream();
    let now = 0;
    const accounts = [{ ...globex, keys: [apiKey(keys.globex, { expiresAt: 10 })] }];
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ accounts })), () => now);
    const socket = connect(sidecar);
    await once(socket, 'open');
    now = 10;
    await once(socket, 'close');
  });
});

describe('a refused handshake', () => {
  const cases: readonly (readonly [
    name: string,
    path: string,
    headers: Record<string, string>,
    code: Parameters<typeof findRefusal>[0],
  ])[] = [
    ['without a key', '/ws/feed', {}, 'missing_api_key'],
    ['with an unknown key', '/ws/feed', { Authorization: 'Bearer sk_test_unknownunknownunknown' }, 'invalid_api_key'],
    [
      'with a key of the other environment',
      '/ws/feed',
      { Authorization: `Bearer ${keys.acmeLive}` },
      'environment_mismatch',
    ],
    [
      'with a key that the route does not permit',
      '/ws/feed',
      { Authorization: `Bearer ${keys.globexPublic}` },
      'key_not_permitted',
    ],
    ['with an ambiguous path', '/ws//feed', { Authorization: `Bearer ${keys.globex}` }, 'ambiguous_request'],
  ];
  test.each(cases)(
    '%s gets the refusal on its socket, and the upstream sees nothing',
    async (_name, path, headers, code) => {
      const { upstream, sidecar } = await startEcho();
      const socket = connect(sidecar, path, headers);
      const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
      expect(response.statusCode).toBe(findRefusal(code).status);
      expect(response.headers['content-type']).toBe('application/problem+json');
      let body = '';
      for await (const chunk of response) body += String(chunk);
      expect(JSON.parse(body)).toMatchObject({ code, request_id: response.headers['x-request-id'] });
      expect(upstream.handshakes).toEqual([]);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
      expect(sidecar.accessLines()).toMatchObject([{ status: findRefusal(code).status, code }]);
    },
  );

  test('that was sent to the core is not refused for lack of room for a body, because it has none', async () => {
    const hold = vi.spyOn(Reservation.prototype, 'hold').mockReturnValue(false);
    onTestFinished(() => hold.mockRestore());
    const upstream = await startWebSocketUpstream();
    const { client } = await startHandshake(upstream.origin);
    expect(await client.untilText('\r\n\r\n')).toMatch(/^HTTP\/1\.1 101 /);
  });

  test('takes no slot if too many are in flight', async () => {
    const { sidecar } = await startEcho({ limits: { inFlight: 1 } });
    const first = connect(sidecar);
    await once(first, 'open');
    const [, response] = (await once(connect(sidecar), 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(503);
    first.close();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    await once(connect(sidecar), 'open');
  });
});

describe('an upstream that does not switch protocols', () => {
  const responses: readonly (readonly [name: string, bytes: string, status: number, body: string])[] = [
    [
      'refuses in chunks',
      'HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\nX-Why: no\r\n\r\n2\r\nno\r\n0\r\n\r\n',
      403,
      'no',
    ],
    ['refuses with a length', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Why: no\r\n\r\nno', 403, 'no'],
    ['responds with 200', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Why: no\r\n\r\n{}', 200, '{}'],
    ['responds with 204', 'HTTP/1.1 204 No Content\r\nX-Why: no\r\n\r\n', 204, ''],
    [
      'asks for another version',
      'HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nX-Why: no\r\nContent-Length: 0\r\n\r\n',
      426,
      '',
    ],
  ];
  test.each(responses)('but %s has its response forwarded, well framed', async (_name, bytes, status, body) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes));
    const { sidecar, client } = await startHandshake(upstream.origin);
    const response = parseOnly(await client.untilEnded());
    expect(client.ending).toBe('end');
    expect(response).toMatchObject({ status, body });
    expect(response.headers).toMatchObject({ 'x-why': 'no', connection: 'close', 'x-request-id': expect.any(String) });
    expect(response.headers).not.toHaveProperty('upgrade');
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status }]));
    expect(await inFlight(sidecar)).toBe(0);
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
  });

  test.each([
    ['closes', (socket: Socket) => void socket.end()],
    ['resets', (socket: Socket) => void socket.resetAndDestroy()],
    ['speaks another protocol', (socket: Socket) => void socket.write('SSH-2.0-OpenSSH_9.2\r\n')],
    ['sends status 999', (socket: Socket) => void socket.write('HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n')],
    ['sends status 099', (socket: Socket) => void socket.write('HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n')],
  ])('but %s makes the response 502', async (_name, fail) => {
    const upstream = await startByteUpstream(({ socket }) => fail(socket));
    const { sidecar, client } = await startHandshake(upstream.origin);
    const response = parseOnly(await client.untilEnded());
    expect(response.status).toBe(502);
    await vi.waitFor(() =>
      expect(sidecar.accessLines()).toMatchObject([{ status: 502, code: 'upstream_unavailable' }]),
    );
  });

  test('but refuses the connection makes the response 502', async () => {
    const { client } = await startHandshake(`http://127.0.0.1:${refusingPort}`);
    expect(parseOnly(await client.untilEnded()).status).toBe(502);
  });

  test('but hangs makes the response 504', async () => {
    const upstream = await startSilentUpstream();
    const { sidecar, client } = await startHandshake(upstream.origin, { timeouts: { upstream: 200 } });
    expect(parseOnly(await client.untilEnded()).status).toBe(504);
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
    expect(sidecar.accessLines()).toMatchObject([{ status: 504, code: 'upstream_timeout' }]);
  });

  test('but never completes the TLS handshake makes the response 504', async () => {
    const upstream = await startSilentUpstream();
    const origin = upstream.origin.replace('http:', 'https:');
    const { client } = await startHandshake(origin, { timeouts: { connect: 200 } });
    expect(parseOnly(await client.untilEnded()).status).toBe(504);
  });

  test.each([
    ['chunks', 'HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n'],
    ['a length', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\nno'],
  ])('but breaks off a refusal with %s leaves a visibly broken response', async (_name, bytes) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes));
    const { sidecar, client } = await startHandshake(upstream.origin);
    await client.untilText('\r\n\r\n');
    upstream.connections[0]?.socket.resetAndDestroy();
    const raw = await client.untilEnded();
    expect(() => parseOnly(raw)).toThrow(/not a whole/);
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
});

describe('when one side vanishes, the other is closed', () => {
  test.each([
    ['closes', (socket: WebSocket) => socket.terminate()],
    ['resets', (socket: WebSocket) => void (socket as unknown as { _socket: Socket })._socket.resetAndDestroy()],
  ])('a client that %s', async (_name, vanish) => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    const closed = once(upstream.sockets[0] as WebSocket, 'close');
    vanish(socket);
    await closed;
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test.each([
    ['closes', (socket: WebSocket) => socket.terminate()],
    ['resets', (socket: WebSocket) => void (socket as unknown as { _socket: Socket })._socket.resetAndDestroy()],
  ])('an upstream that %s', async (_name, vanish) => {
    const { upstream, sidecar } = await startEcho();
    const socket = connect(sidecar);
    await once(socket, 'open');
    const closed = once(socket, 'close');
    vanish(upstream.sockets[0] as WebSocket);
    await closed;
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test.each([
    ['closes', (socket: Socket) => void socket.destroy()],
    ['resets', (socket: Socket) => void socket.resetAndDestroy()],
  ])('a client that %s while the upstream has not responded', async (_name, vanish) => {
    const upstream = await startSilentUpstream();
    const { sidecar, client } = await startHandshake(upstream.origin, { timeouts: { upstream: 1_000 } });
    await vi.waitFor(() => expect(upstream.connections[0]?.received).toContain('\r\n\r\n'));
    vanish(client.socket);
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true), { timeout: 3_000 });
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test('both are closed if neither sends anything for the idle timeout', async () => {
    const { upstream, sidecar } = await startEcho({ timeouts: { idle: 300 } });
    const socket = connect(sidecar);
    await once(socket, 'open');
    const closed = once(upstream.sockets[0] as WebSocket, 'close');
    await once(socket, 'close');
    await closed;
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
});

test('a WebSocket that is requested while an earlier request waits is opened after the earlier response, and gets the bytes after its handshake', async () => {
  let release: (() => void) | undefined;
  const upstream = await startWebSocketUpstream(createServer(), (_req, res) => {
    release = () => void res.end('slow');
  });
  const sidecar = await startSidecar(configOf(upstream.origin, settings()));
  const client = await openConnection(sidecar.port);
  client.send(
    `GET /slow HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n${handshake('/ws/feed', authorization)}` +
      // A text frame `hi`, with a mask of zeros.
      '\x81\x82\0\0\0\0hi',
  );
  await vi.waitFor(async () => expect([release === undefined, await inFlight(sidecar)]).toEqual([false, 1]));
  expect(upstream.sockets).toEqual([]);
  release?.();
  await client.untilText('\x81\x02hi');
  expect(client.received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 101']);
});

describe('an Upgrade on a route without `upgrade`', () => {
  test.each([
    [
      'h2c, as Java clients send it',
      'POST',
      '/notes',
      'Upgrade: h2c',
      'HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA',
    ],
    ['a WebSocket', 'GET', '/notes', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    ['a WebSocket by POST', 'POST', '/ws/feed', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    ['something else', 'GET', '/ws/feed', 'Upgrade: irc/6.9', 'X-Any: thing'],
  ])('is ignored: %s', async (_name, method, path, ...headers) => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    const body = method === 'POST' ? 'text' : '';
    const connection = headers[0].includes('h2c') ? 'Connection: Upgrade, HTTP2-Settings' : 'Connection: Upgrade';
    const lines = [`${method} ${path} HTTP/1.1`, 'Host: localhost', authorization, connection, ...headers];
    const bytes = [...lines, `Content-Length: ${body.length}`, '', body].join('\r\n');
    client.send(bytes + bytes);
    await client.untilText('{"ok":true}', 2);
    expect(parseResponses(client.received).map(({ status }) => status)).toEqual([200, 200]);
    expect(upstream.seen.map(({ body: arrived }) => arrived)).toEqual([body, body]);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('upgrade');
    expect(upstream.seen[0]?.headers).not.toHaveProperty('http2-settings');
  });
});

test.each([
  ['its head', { onHead: fail }, true],
  ['its body', { onData: fail }, true],
  ['its end', { onEnd: fail }, true],
  ['a failure', { onFailure: fail }, false],
])('an error that a handler throws at %s is passed to its onError', async (_, throwing, responds) => {
  const response = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
  const { origin } = await startByteUpstream(
    ({ socket }) => void (responds ? socket.write(response) : socket.destroy()),
  );
  const { promise: error, resolve: onError } = Promise.withResolvers<unknown>();
  const server = createServer().on('upgrade', ({ socket }) => {
    const request = {
      socket,
      target: '/',
      headers: [],
      onSuspend: setImmediate,
      reading: nextTurn,
      onCoupled: () => {},
    };
    upgrade(parseAddress(targetOf(origin)), 2_000, request, { ...ignored, ...throwing, onError }, () => []);
  });
  const client = await openConnection(await listen(server));
  client.send(handshake('/'));
  expect(await error).toEqual(new Error('unforeseen'));
});

function fail(): never {
  throw new Error('unforeseen');
}
