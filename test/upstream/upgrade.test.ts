import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer, type RawData } from 'ws';
import type { Account } from '../../src/accounts/account.ts';
import { refusalOf } from '../../src/errors.ts';
import { ignored } from '../support/ask-upstream.ts';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, parseOnly, parseResponses } from '../support/connection.ts';
import { freePort } from '../support/free-port.ts';
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
import { addressOf } from '../../src/upstream/connect.ts';
import { upgrade } from '../../src/upstream/upgrade.ts';

const webSocketRoute = route('/ws/*', { upgrade: true });

function settings(more: Parameters<typeof configOf>[1] = {}): Parameters<typeof configOf>[1] {
  return { routes: [...routes, webSocketRoute], ...more };
}

/** An upstream that accepts WebSockets and echoes; requests that are not a handshake get `respond`. */
async function startEcho(
  server: Server = createServer(),
  respond: RequestListener = (_req, res) => void res.end('{}'),
) {
  const handshakes: IncomingMessage[] = [];
  const sockets: WebSocket[] = [];
  server.on('request', respond);
  const webSockets = new WebSocketServer({ server });
  webSockets.on('connection', (socket, req) => {
    handshakes.push(req);
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('message', (data: RawData, isBinary) => socket.send(data, { binary: isBinary }));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, port, handshakes, sockets };
}

/** A WebSocket of globex, closed when the test is over. */
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

/** The handshake as bytes. */
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

describe('a WebSocket on a route that has them', () => {
  test('carries messages both ways', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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

  test('has the identity headers of the sidecar, not those of the client', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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

  test('gets the end-to-end headers of a 101, without those that only the sidecar may send', async () => {
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

  test('is in flight as long as it is open, and has one access line', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const socket = connect(sidecar, path);
    await once(socket, 'open');
    expect(upstream.handshakes[0]?.url).toBe(path);
  });

  test('gets the bytes that the client sent right after the handshake', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    // A masked text frame `hi`, by a mask of zeros.
    client.send(`${handshake('/ws/feed', authorization)}\x81\x82\0\0\0\0hi`);
    expect(await client.untilText('\x81\x02hi')).toMatch(/^HTTP\/1\.1 101 /);
  });

  test('may be requested in any letter case', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(
      handshake('/WS/feed', authorization)
        .replace('Connection: Upgrade', 'connection: keep-alive, UPGRADE')
        .replace('Upgrade: websocket', 'upgrade: WebSocket'),
    );
    expect(await client.untilText('\r\n\r\n')).toMatch(/^HTTP\/1\.1 101 /);
  });

  test('forwards headers of any name', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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

  test('goes to an upstream with TLS under the configured name, and to no other', async () => {
    const authority = createAuthority();
    const { cert, key } = authority.issue('DNS:localhost', 'IP:127.0.0.1');
    const upstream = await startEcho(createHttpsServer({ cert, key }));
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
    for (const host of ['localhost', '127.0.0.1']) {
      const socket = connect(await at(`https://${host}:${upstream.port}`, authority.cert), '/ws/x', authorized);
      await once(socket, 'open');
      expect(await echoed(socket, 'hello')).toBe('hello');
    }
    const socket = connect(await at(`https://localhost:${upstream.port}`, createAuthority().cert), '/ws/x', authorized);
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(502);
  });
});

describe('a WebSocket ends within seconds', () => {
  const ends: readonly (readonly [name: string, account: Account])[] = [
    ['of a key that is gone', { ...globex, keys: [] }],
    ['of a key that is revoked', { ...globex, keys: [apiKey(keys.globex, { revokedAt: 1 })] }],
    ['of an account that is inactive', { ...globex, active: false }],
  ];
  test.each(ends)('%s', async (_name, changed) => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const socket = connect(sidecar);
    await once(socket, 'open');
    const other = connect(sidecar, '/ws/feed', { Authorization: `Bearer ${keys.acme}` });
    await once(other, 'open');
    sidecar.app.apply(configOf(upstream.origin, settings({ accounts: [acme, changed] })));
    await once(socket, 'close');
    expect(await echoed(other, 'still here')).toBe('still here');
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ status: 101, account: 'globex' }]));
  });

  test('of a key that expires', async () => {
    const upstream = await startEcho();
    let now = 0;
    const accounts = [{ ...globex, keys: [apiKey(keys.globex, { expiresAt: 10 })] }];
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ accounts })), () => now);
    const socket = connect(sidecar);
    await once(socket, 'open');
    now = 10;
    await once(socket, 'close');
  });
});

describe('a handshake that is refused', () => {
  const cases: readonly (readonly [
    name: string,
    path: string,
    headers: Record<string, string>,
    code: Parameters<typeof refusalOf>[0],
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
    '%s gets its refusal on the socket, and the upstream sees nothing',
    async (_name, path, headers, code) => {
      const upstream = await startEcho();
      const sidecar = await startSidecar(configOf(upstream.origin, settings()));
      const socket = connect(sidecar, path, headers);
      const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
      expect(response.statusCode).toBe(refusalOf(code).status);
      expect(response.headers['content-type']).toBe('application/problem+json');
      let body = '';
      for await (const chunk of response) body += String(chunk);
      expect(JSON.parse(body)).toMatchObject({ code, request_id: response.headers['x-request-id'] });
      expect(upstream.handshakes).toEqual([]);
      await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
      expect(sidecar.accessLines()).toMatchObject([{ status: refusalOf(code).status, code }]);
    },
  );

  test('because too many are in flight occupies no slot', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ limits: { inFlight: 1 } })));
    const first = connect(sidecar);
    await once(first, 'open');
    const [, response] = (await once(connect(sidecar), 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(503);
    first.close();
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
    await once(connect(sidecar), 'open');
  });
});

describe('an upstream that does not switch', () => {
  const responses: readonly (readonly [name: string, bytes: string, status: number, body: string])[] = [
    [
      'refuses in chunks',
      'HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\nX-Why: no\r\n\r\n2\r\nno\r\n0\r\n\r\n',
      403,
      'no',
    ],
    ['refuses with a length', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Why: no\r\n\r\nno', 403, 'no'],
    ['answers instead', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Why: no\r\n\r\n{}', 200, '{}'],
    ['has nothing to say', 'HTTP/1.1 204 No Content\r\nX-Why: no\r\n\r\n', 204, ''],
    [
      'asks for another version',
      'HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nX-Why: no\r\nContent-Length: 0\r\n\r\n',
      426,
      '',
    ],
  ];
  test.each(responses)('and %s reaches the client, well framed', async (_name, bytes, status, body) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes));
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
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
    ['talks nonsense', (socket: Socket) => void socket.write('SSH-2.0-OpenSSH_9.2\r\n')],
    ['gives a bad status', (socket: Socket) => void socket.write('HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n')],
    ['gives a low status', (socket: Socket) => void socket.write('HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n')],
  ])('and %s gives 502', async (_name, fail) => {
    const upstream = await startByteUpstream(({ socket }) => fail(socket));
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
    const response = parseOnly(await client.untilEnded());
    expect(response.status).toBe(502);
    await vi.waitFor(() =>
      expect(sidecar.accessLines()).toMatchObject([{ status: 502, code: 'upstream_unavailable' }]),
    );
  });

  test('and refuses the connection gives 502', async () => {
    const port = await freePort();
    const sidecar = await startSidecar(configOf(`http://127.0.0.1:${port}`, settings()));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
    expect(parseOnly(await client.untilEnded()).status).toBe(502);
  });

  test('and hangs gives 504', async () => {
    const upstream = await startByteUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ timeouts: { upstream: 200 } })));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
    expect(parseOnly(await client.untilEnded()).status).toBe(504);
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
    expect(sidecar.accessLines()).toMatchObject([{ status: 504, code: 'upstream_timeout' }]);
  });

  test('and never finishes the connection gives 504', async () => {
    const upstream = await startByteUpstream(() => {});
    const origin = upstream.origin.replace('http:', 'https:');
    const sidecar = await startSidecar(configOf(origin, settings({ timeouts: { connect: 200 } })));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
    expect(parseOnly(await client.untilEnded()).status).toBe(504);
  });

  test.each([
    ['chunks', 'HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n'],
    ['a length', 'HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\nno'],
  ])('and breaks its refusal off in %s leaves a response that is visibly broken', async (_name, bytes) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes));
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
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
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
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
    const upstream = await startByteUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ timeouts: { upstream: 1_000 } })));
    const client = await openConnection(sidecar.port);
    client.send(handshake('/ws/feed', authorization));
    await vi.waitFor(() => expect(upstream.connections[0]?.received).toContain('\r\n\r\n'));
    vanish(client.socket);
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true), { timeout: 3_000 });
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });

  test('both are closed if neither has sent anything for too long', async () => {
    const upstream = await startEcho();
    const sidecar = await startSidecar(configOf(upstream.origin, settings({ timeouts: { idle: 300 } })));
    const socket = connect(sidecar);
    await once(socket, 'open');
    const closed = once(upstream.sockets[0] as WebSocket, 'close');
    await once(socket, 'close');
    await closed;
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(0));
  });
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
    client.send(bytes);
    const response = parseOnly(await client.untilEnded());
    // See test/gateway/ignored-upgrade.test.ts for the reason.
    expect(response).toMatchObject({ status: 200, headers: { connection: 'close' } });
    expect(upstream.seen.map(({ body: arrived }) => arrived)).toEqual([body]);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('upgrade');
    expect(upstream.seen[0]?.headers).not.toHaveProperty('http2-settings');
  });

  test('is ignored after a request without its response yet, and harms no other request', async () => {
    let release: (() => void) | undefined;
    const upstream = await startEcho(createServer(), (req, res) => {
      if (req.url === '/slow') release = () => void res.end('slow');
      else res.end('{}');
    });
    const sidecar = await startSidecar(configOf(upstream.origin, settings()));
    const client = await openConnection(sidecar.port);
    client.send(
      `GET /slow HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\n\r\n${handshake('/ws/feed', authorization)}`,
    );
    await vi.waitFor(async () => expect([release === undefined, await inFlight(sidecar)]).toEqual([false, 1]));
    release?.();
    await client.untilText('{}');
    const responses = parseResponses(client.received);
    expect(responses.map(({ status, body }) => [status, body])).toEqual([
      [200, 'slow'],
      [200, '{}'],
    ]);
  });
});

test.each([
  ['its head', { onHead: fail }, true],
  ['its body', { onData: fail }, true],
  ['its end', { onEnd: fail }, true],
  ['a failure', { onFailure: fail }, false],
])(
  'an error thrown by a handler at %s is passed to its onError, and does not end the process',
  async (_, throwing, answers) => {
    const response = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
    const { origin } = await startByteUpstream(
      ({ socket }) => void (answers ? socket.write(response) : socket.destroy()),
    );
    const { promise: error, resolve: onError } = Promise.withResolvers<unknown>();
    const server = createServer().on('upgrade', (req, _socket, firstBytes) => {
      const request = { req, firstBytes, target: '/', headers: [] };
      upgrade(addressOf(targetOf(origin)), 2_000, request, { ...ignored, ...throwing, onError }, () => []);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const client = await openConnection((server.address() as AddressInfo).port);
    client.send(handshake('/'));
    expect(await error).toEqual(new Error('unforeseen'));
  },
);

function fail(): never {
  throw new Error('unforeseen');
}
