import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { constants } from 'node:crypto';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer, type ServerOptions } from 'node:https';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { UpstreamTarget } from '../../src/config/config.ts';
import type { ResponseHandler, UpstreamCall, UpstreamFailure } from '../../src/upstream/call.ts';
import { SharedTls } from '../../src/upstream/connect.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { ignored, upstreamAt } from '../support/ask-upstream.ts';
import { startByteUpstream, startSilentUpstream } from '../support/byte-upstream.ts';
import { createAuthority } from '../support/certificates.ts';
import { send } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { freePort } from '../support/free-port.ts';
import { listen } from '../support/listen.ts';
import { configOf, keys, startSidecar, targetOf, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

const key = keys.globex;

function sidecarBefore(target: Partial<UpstreamTarget> & { readonly origin: string }): Promise<TestSidecar> {
  const upstream = targetOf(target.origin, target);
  return startSidecar(configOf('', { environments: [{ name: 'test', hosts: [], upstream }] }));
}

test('an upstream may listen on a Unix socket', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'upstream-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const socketPath = join(directory, 'core.sock');
  const hosts: (string | undefined)[] = [];
  await listen(
    createHttpServer((req, res) => {
      hosts.push(req.headers.host);
      res.end(`${req.method} ${req.url}`);
    }),
    socketPath,
  );
  const sidecar = await sidecarBefore({ origin: 'http://localhost', socketPath });
  const response = await send(sidecar, 'GET /x?y', { key });
  expect([response.status, response.body]).toEqual([200, 'GET /x?y']);
  expect(hosts).toEqual([`127.0.0.1:${sidecar.port}`]);

  const absent = await sidecarBefore({ origin: 'http://localhost', socketPath: join(directory, 'nobody.sock') });
  expect((await send(absent, 'GET /x', { key })).status).toBe(502);
  expect(absent.accessLines()[0]).toMatchObject({ upstream_error: 'ENOENT' });
});

describe('an upstream with TLS', () => {
  const authority = createAuthority();
  const stranger = createAuthority();
  const forName = authority.issue('DNS:localhost');
  const forAddress = authority.issue('IP:127.0.0.1');
  const forAnother = authority.issue('DNS:core.internal');
  const client = authority.issue('DNS:sidecar');

  /** Starts an upstream with TLS. `names` has the server names of its requests. */
  async function startTls(
    options: ServerOptions,
    respond: RequestListener = (_req, res) => void res.end('{}'),
  ): Promise<{ port: number; names: (string | false | null)[]; heads: () => number }> {
    let heads = 0;
    const names: (string | false | null)[] = [];
    const server = createHttpsServer(options, (req, res) => {
      heads += 1;
      if (req.socket instanceof TLSSocket)
        names.push((req.socket as { servername?: string | false | null }).servername ?? null);
      respond(req, res);
    });
    return { port: await listen(server), names, heads: () => heads };
  }

  test('gets at most a hundred handshakes a second for clients with public keys that repeat an id; other requests are not counted', async () => {
    const upstream = await startTls(forName);
    const sidecar = await sidecarBefore({ origin: `https://localhost:${upstream.port}`, ca: authority.cert });
    const outcome = async (stranger: boolean): Promise<unknown> => {
      const headers = { 'X-Request-Id': 'a' };
      const line = 'POST /api/v1/transactions/initialize';
      const response = await send(sidecar, line, { key: stranger ? keys.globexPublic : key, headers, body: '{}' });
      await settle();
      return response.status === 200 ? 200 : JSON.parse(response.body);
    };
    const refused = expect.objectContaining({ code: 'overloaded', forwarded: 'no' }) as unknown;
    const clock = vi.spyOn(performance, 'now');
    onTestFinished(() => clock.mockRestore());
    const from = Math.ceil(performance.now());
    for (const passed of [0, 1_000]) {
      clock.mockReturnValue(from + passed);
      // The very first request needs no other connection.
      if (passed === 0) expect(await outcome(true)).toBe(200);
      for (let i = 0; i < 100; i += 1) expect(await outcome(true)).toBe(200);
      expect(await outcome(true)).toEqual(refused);
      expect(await outcome(false)).toBe(200);
    }
    clock.mockReturnValue(from + 1_999);
    expect(await outcome(true)).toEqual(refused);
    expect(upstream.heads()).toBe(203);
    expect(sidecar.accessLines().at(-1)).toMatchObject({ status: 503, upstream_error: 'REPEATED_ID' });
  });

  test('has its CAs read once for all connections', async () => {
    const upstream = await startTls(forName, () => {});
    const made = vi.spyOn(process.getBuiltinModule('node:tls'), 'createSecureContext');
    onTestFinished(() => made.mockRestore());
    const sidecar = await sidecarBefore({ origin: `https://localhost:${upstream.port}`, ca: authority.cert });
    for (let i = 0; i < 3; i += 1) void send(sidecar, 'GET /', { key }).catch(() => {});
    await vi.waitFor(() => expect(upstream.heads()).toBe(3));
    expect(made.mock.calls.filter(([options]) => options?.ca === authority.cert)).toHaveLength(1);
  });

  describe.each(['TLSv1.2', 'TLSv1.3'] as const)('over %s', (version) => {
    /** Starts an upstream. `resumed` says for each of its connections whether it resumed a session. */
    async function startResumable(options: ServerOptions = {}) {
      const server = createHttpsServer(
        { ...forName, minVersion: version, maxVersion: version, ...options },
        (_req, res) => void res.setHeader('Connection', 'close').end('{}'),
      );
      const resumed: boolean[] = [];
      server.on('secureConnection', (socket) => void resumed.push(socket.isSessionReused()));
      const sidecar = await sidecarBefore({
        origin: `https://localhost:${await listen(server)}`,
        ca: authority.cert,
        ...client,
      });
      const get = async (): Promise<void> => expect((await send(sidecar, 'GET /', { key })).status).toBe(200);
      return { server, resumed, get };
    }

    test.each([
      ['', {}],
      ['with client certificates ', { ca: authority.cert, requestCert: true, rejectUnauthorized: true }],
    ])('%shas its session resumed by the connections after the first', async (_name, options) => {
      const { resumed, get } = await startResumable(options);
      for (let i = 0; i < 4; i += 1) await get();
      expect(resumed).toEqual([false, true, true, true]);
    });

    test('is verified again when its session has expired', async () => {
      const { resumed, get } = await startResumable({ sessionTimeout: 1 });
      for (let i = 0; i < 2; i += 1) await get();
      expect(resumed).toEqual([false, true]);
      await vi.waitFor(
        async () => {
          await get();
          expect(resumed.slice(1)).toContain(false);
        },
        { timeout: 5_000, interval: 300 },
      );
    });

    test('is verified again if it has other keys for its tickets', async () => {
      const { server, resumed, get } = await startResumable();
      await get();
      server.setTicketKeys(Buffer.alloc(48, 1));
      for (let i = 0; i < 2; i += 1) await get();
      expect(resumed).toEqual([false, false, true]);
    });
  });

  describe('shares a session', () => {
    /** Simulates a connection that gets a session. Node's servers send no ticket to a client that has resumed a session, but others do. */
    function connectBy(shared: SharedTls, isReused: boolean, session: string): void {
      const socket = Object.assign(new EventEmitter(), { isSessionReused: () => isReused });
      shared.follow(socket as unknown as TLSSocket);
      socket.emit('session', Buffer.from(session));
    }

    test('of a connection that resumed none, because a chain of resumed sessions would never verify the certificate again', () => {
      const shared = new SharedTls(targetOf('https://localhost'), 'localhost');
      const kept = (isReused: boolean, session: string): string | undefined => {
        connectBy(shared, isReused, session);
        return shared.session?.toString();
      };
      expect([kept(false, 'first'), kept(true, 'second'), kept(false, 'third')]).toEqual(['first', 'first', 'third']);
    });

    test('for a minute, after which the certificate is verified again', () => {
      const shared = new SharedTls(targetOf('https://localhost'), 'localhost');
      const from = performance.now();
      const clock = vi.spyOn(performance, 'now').mockReturnValue(from);
      onTestFinished(() => clock.mockRestore());
      connectBy(shared, false, 'first');
      clock.mockReturnValue(from + 59_999);
      connectBy(shared, true, 'second');
      expect(shared.session?.toString()).toBe('first');
      clock.mockReturnValue(from + 60_000);
      expect(shared.session).toBeUndefined();
    });
  });

  /** Starts an upstream that calls `onResume` for a client that resumes a session. */
  async function startStubborn(onResume: (done: (error: Error) => void) => void) {
    const offered: boolean[] = [];
    const own = new Set<string>();
    const server = createHttpsServer(
      // Disable tickets, because the server would not look them up in `resumeSession`.
      { ...forName, maxVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_TICKET },
      (_req, res) => void res.setHeader('Connection', 'close').end('{}'),
    );
    server.on('newSession', (id: Buffer, _data, done) => {
      own.add(id.toString('hex'));
      done();
    });
    server.on('resumeSession', (id: Buffer, done: (error: Error | null, data: Buffer | null) => void) => {
      const isOwn = own.has(id.toString('hex'));
      offered.push(isOwn);
      if (isOwn) onResume((error) => done(error, null));
      else done(null, null);
    });
    const upstream = targetOf(`https://localhost:${await listen(server)}`, { ca: authority.cert });
    const { timeouts } = configOf('');
    const sidecar = await startSidecar(
      configOf('', { environments: [{ name: 'test', hosts: [], upstream }], timeouts: { ...timeouts, connect: 500 } }),
    );
    const statuses = async (count: number): Promise<readonly number[]> => {
      const responses = Array.from({ length: count }, () => send(sidecar, 'POST /', { key, body: '{}' }));
      return (await Promise.all(responses)).map(({ status }) => status);
    };
    return { sidecar, statuses, resumptions: () => offered.filter(Boolean).length };
  }

  test.each<[string, (done: (error: Error) => void) => void]>([
    ['refuses', (done) => done(new Error('broken'))],
    ['does not respond to', () => {}],
  ])(
    'that %s clients that resume a session gets handshakes without one, at once and for ten minutes',
    async (_name, onResume) => {
      const { statuses, resumptions } = await startStubborn(onResume);
      expect(await statuses(1)).toEqual([200]);
      expect(await statuses(5)).toEqual(Array(5).fill(200));
      const tried = resumptions();
      expect(tried).toBeGreaterThan(0);
      expect(await statuses(5)).toEqual(Array(5).fill(200));
      const clock = vi.spyOn(performance, 'now');
      onTestFinished(() => clock.mockRestore());
      const from = performance.now();
      clock.mockReturnValue(from + 590_000);
      expect(await statuses(1)).toEqual([200]);
      expect(resumptions()).toBe(tried);
      clock.mockReturnValue(from + 600_000);
      expect(await statuses(1)).toEqual([200]);
      expect(resumptions()).toBe(tried + 1);
    },
  );

  test('has its session resumed even after a client has left during a handshake that was to resume it', async () => {
    const { sidecar, statuses, resumptions } = await startStubborn(() => {});
    expect(await statuses(1)).toEqual([200]);
    const leaving = await openConnection(sidecar.port);
    leaving.send(`GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    await vi.waitFor(() => expect(resumptions()).toBe(1));
    leaving.socket.destroy();
    await vi.waitFor(() => expect(sidecar.accessLines()).toHaveLength(2));
    expect(await statuses(1)).toEqual([200]);
    expect(resumptions()).toBe(2);
  });

  test('is verified by the configured CA and the configured name, whatever the Host header is', async () => {
    const upstream = await startTls(forName);
    const sidecar = await sidecarBefore({ origin: `https://localhost:${upstream.port}`, ca: authority.cert });
    for (const Host of ['core.internal', 'evil.example', 'localhost', '127.0.0.1']) {
      expect((await send(sidecar, 'GET /', { key, headers: { Host } })).status).toBe(200);
    }
    expect(new Set(upstream.names)).toEqual(new Set(['localhost']));
  });

  test('may be configured by address, which the certificate must have', async () => {
    const upstream = await startTls(forAddress);
    const sidecar = await sidecarBefore({ origin: `https://127.0.0.1:${upstream.port}`, ca: authority.cert });
    expect((await send(sidecar, 'GET /', { key, headers: { Host: 'core.internal' } })).status).toBe(200);
    // An address cannot be a server name.
    expect(upstream.names).toEqual([false]);
  });

  test.each([
    ['another name', forAnother, 'localhost'],
    ['a name instead of the address', forName, '127.0.0.1'],
    ['an address instead of the name', forAddress, 'localhost'],
  ])('with a certificate for %s gets no request', async (_name, certificate, host) => {
    const upstream = await startTls(certificate);
    const sidecar = await sidecarBefore({ origin: `https://${host}:${upstream.port}`, ca: authority.cert });
    const response = await send(sidecar, 'GET /', { key, headers: { Host: 'core.internal' } });
    expect(response.status).toBe(502);
    expect(upstream.heads()).toBe(0);
    expect(sidecar.accessLines()[0]).toMatchObject({ upstream_error: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  });

  test.each([
    ['another CA', stranger.cert],
    ['the public CAs', undefined],
  ])('with a certificate that is not signed by %s gets no request', async (_name, ca) => {
    const upstream = await startTls(forName);
    const sidecar = await sidecarBefore({ origin: `https://localhost:${upstream.port}`, ca });
    expect((await send(sidecar, 'POST /', { key, body: 'secret' })).status).toBe(502);
    expect(upstream.heads()).toBe(0);
  });

  test('may require a client certificate', async () => {
    const upstream = await startTls({ ...forName, ca: authority.cert, requestCert: true, rejectUnauthorized: true });
    const origin = `https://localhost:${upstream.port}`;
    const known = await sidecarBefore({ origin, ca: authority.cert, ...client });
    expect((await send(known, 'GET /', { key })).status).toBe(200);

    const unknown = await sidecarBefore({ origin, ca: authority.cert });
    expect((await send(unknown, 'GET /', { key })).status).toBe(502);
    const wrong = await sidecarBefore({ origin, ca: authority.cert, ...stranger.issue('DNS:sidecar') });
    expect((await send(wrong, 'GET /', { key })).status).toBe(502);
    expect(upstream.heads()).toBe(1);
  });

  test('that speaks only TLS 1.1 gets no request', async () => {
    const upstream = await startTls({
      ...forName,
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    });
    const sidecar = await sidecarBefore({ origin: `https://localhost:${upstream.port}`, ca: authority.cert });
    expect((await send(sidecar, 'GET /', { key })).status).toBe(502);
    expect(upstream.heads()).toBe(0);
  });
});

describe('connections', () => {
  test('are reused for one request after the other', async () => {
    const sockets = new Set<Socket>();
    const upstream = await startRawUpstream((req, res) => {
      sockets.add(req.socket);
      req.resume().on('end', () => res.end('{}'));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 0; i < 20; i += 1) {
      expect(
        (await send(sidecar, `${i % 2 === 0 ? 'GET' : 'POST'} /`, { key, body: i % 3 === 0 ? 'text' : '' })).status,
      ).toBe(200);
    }
    expect(sockets.size).toBe(1);
  });

  test('carry one request at a time', async () => {
    const busy = new Set<Socket>();
    let together = 0;
    const upstream = await startRawUpstream((req, res) => {
      if (busy.has(req.socket)) together += 1;
      busy.add(req.socket);
      setTimeout(() => {
        busy.delete(req.socket);
        res.end('{}');
      }, 20);
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(Array.from({ length: 10 }, () => send(sidecar, 'GET /', { key })));
    }
    expect(upstream.heads()).toBe(50);
    expect(together).toBe(0);
  });

  test.each([
    ['sends Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}'],
    [
      'sends Connection: Close in a list',
      'HTTP/1.1 200 OK\r\nConnection: X-Other, Close\r\nContent-Length: 2\r\n\r\n{}',
    ],
    ['speaks HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}'],
    ['sends more than its Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n'],
    ['sends a body after 204', 'HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'],
  ])('are not reused if the upstream %s', async (_name, bytes) => {
    const upstream = await startByteUpstream(({ socket }) => void socket.write(bytes), { every: true });
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 0; i < 3; i += 1) expect((await send(sidecar, 'GET /', { key })).body).not.toContain('evil');
    expect(upstream.connections).toHaveLength(3);
  });

  test('are not reused if the upstream sends bytes without a request', async () => {
    const upstream = await startByteUpstream(
      ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
        setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'), 20);
      },
      { every: true },
    );
    const sidecar = await startSidecar(configOf(upstream.origin));
    expect((await send(sidecar, 'GET /', { key })).body).toBe('{}');
    await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
    expect((await send(sidecar, 'GET /', { key })).body).toBe('{}');
  });

  test('that the upstream has closed are replaced, and no request fails', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
      setTimeout(() => socket.end(), 10);
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    for (let i = 1; i <= 5; i += 1) {
      expect((await send(sidecar, 'POST /', { key, body: 'text' })).status).toBe(200);
      await vi.waitFor(() => expect(upstream.connections[i - 1]?.closed).toBe(true));
    }
  });

  test('that fail before anything is sent are tried exactly once more', async () => {
    // The upstream ends each connection before its TLS handshake is complete.
    const upstream = await startSilentUpstream();
    for (const body of ['text', 'x'.repeat(100_000)]) {
      const before = upstream.connections.length;
      const sidecar = await sidecarBefore({ origin: upstream.origin.replace('http:', 'https:') });
      const closing = setInterval(() => upstream.connections.forEach(({ socket }) => socket.destroy()), 5);
      expect((await send(sidecar, 'POST /', { key, body })).status).toBe(502);
      clearInterval(closing);
      expect(upstream.connections.length - before).toBe(2);
    }
  });

  test('that were refused do not keep later requests from being sent', async () => {
    const port = await freePort();
    const sidecar = await sidecarBefore({ origin: `http://127.0.0.1:${port}` });
    expect((await send(sidecar, 'POST /', { key, body: 'text' })).status).toBe(502);
    await listen(
      createHttpServer((_req, res) => void res.end('{}')),
      port,
    );
    expect((await send(sidecar, 'POST /', { key, body: 'text' })).status).toBe(200);
  });
});

describe('a request is never sent twice', () => {
  /** Starts an upstream that counts requests by their id, and ends its connections at the worst moments. */
  async function startFaulty(end: (socket: Socket, nth: number) => void) {
    const counts = new Map<string, number>();
    const served = new WeakMap<Socket, number>();
    const upstream = await startRawUpstream((req, res) => {
      const id = String(req.headers['x-request-id']);
      counts.set(id, (counts.get(id) ?? 0) + 1);
      const nth = (served.get(req.socket) ?? 0) + 1;
      served.set(req.socket, nth);
      req.resume().on('error', () => {});
      req.on('end', () => res.end('{}'));
      res.on('finish', () => end(req.socket, nth));
    });
    return { upstream, counts };
  }

  async function race(sidecar: TestSidecar, counts: ReadonlyMap<string, number>, method: string): Promise<number[]> {
    const statuses: number[] = [];
    for (let round = 0; round < 100; round += 1) {
      const ids = [0, 1, 2].map((i) => `${method}-${round}-${i}`);
      const responses = await Promise.all(
        ids.map((id, i) => {
          // Every other request has no body.
          const body = i % 2 === 0 ? 'pay' : '';
          return send(sidecar, `${method} /`, { key, headers: { 'X-Request-Id': id }, body });
        }),
      );
      for (const [i, id] of ids.entries()) {
        const status = responses[i]?.status ?? 0;
        statuses.push(status);
        // A request without a response may have arrived, but only a GET without a body may have arrived twice.
        const most = method === 'GET' && i % 2 === 1 ? 2 : 1;
        expect(counts.get(id) ?? 0).toBeLessThanOrEqual(most);
        if (status === 200) expect(counts.get(id)).toBeGreaterThanOrEqual(1);
      }
    }
    return statuses;
  }

  test.each(['POST', 'GET'])(
    'even if the upstream closes idle connections just as they are reused (%s)',
    async (method) => {
      let delay = 0;
      const { upstream, counts } = await startFaulty((socket) => {
        // With delays from 0 to 3 ms, the connection ends before, while or after the next request is sent.
        delay = (delay + 1) % 7;
        setTimeout(() => socket.destroy(), delay / 2);
      });
      const sidecar = await startSidecar(configOf(upstream.origin));
      const statuses = await race(sidecar, counts, method);
      expect(new Set(statuses)).toEqual(new Set(statuses.includes(502) ? [200, 502] : [200]));
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(100);
    },
  );

  test('even if the upstream resets the connection after reading the request', async () => {
    const counts = new Map<string, number>();
    const sockets = new Set<Socket>();
    const upstream = await startRawUpstream((req, res) => {
      const id = String(req.headers['x-request-id']);
      counts.set(id, (counts.get(id) ?? 0) + 1);
      if (sockets.has(req.socket)) {
        req.socket.resetAndDestroy();
        return;
      }
      sockets.add(req.socket);
      req.resume().on('end', () => res.end('{}'));
    });
    const sidecar = await startSidecar(configOf(upstream.origin));
    const statuses = await race(sidecar, counts, 'POST');
    expect(statuses).toContain(200);
    expect(statuses).toContain(502);
    expect([...counts.values()].every((count) => count === 1)).toBe(true);
  });
});

describe('a paused response', () => {
  /** Sends a request straight to the upstream client. */
  function ask(upstream: Upstream, onData: (call: UpstreamCall) => void): Promise<string | UpstreamFailure> {
    return new Promise((resolve, reject) => {
      let body = '';
      const handler: ResponseHandler = {
        ...ignored,
        onData: (chunk) => {
          body += chunk.toString();
          onData(call);
        },
        onEnd: () => resolve(body),
        onFailure: resolve,
        onError: reject,
      };
      const call = upstream.send(
        { method: 'GET', target: '/', headers: ['Host', 'localhost'], body: undefined },
        handler,
      );
    });
  }

  test('leaves its connection usable once it is resumed', async () => {
    const { origin } = await startUpstream((_seen, res) => {
      res.write('held');
      res.end();
    });
    const upstream = upstreamAt(origin);
    const calls: UpstreamCall[] = [];
    const first = ask(upstream, (call) => {
      calls.push(call);
      call.pause();
    });
    // The end of the response may arrive with its first bytes or later.
    await Promise.race([first, settle()]);
    calls[0]?.resume();
    expect(await first).toBe('held');
    expect(await ask(upstream, () => {})).toBe('held');
  });

  test('does not pause the next one on the connection', async () => {
    const { origin, connections } = await startByteUpstream(
      ({ socket }) => void socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nheld\r\n0\r\n\r\n'),
      { every: true },
    );
    const upstream = upstreamAt(origin);
    for (let i = 0; i < 3; i += 1) expect(await ask(upstream, (call) => call.pause())).toBe('held');
    expect(connections).toHaveLength(1);
  });
});

test('a handler that throws ends its own call only', async () => {
  const { origin } = await startUpstream();
  const upstream = upstreamAt(origin);
  const send = (onHead: () => void): Promise<string> =>
    new Promise((resolve, reject) => {
      const handler: ResponseHandler = {
        ...ignored,
        onHead,
        onEnd: () => resolve('served'),
        onFailure: ({ cause }) => resolve(cause),
        onError: reject,
      };
      upstream.send({ method: 'GET', target: '/', headers: ['Host', 'localhost'], body: undefined }, handler);
    });
  const throwing = send(() => {
    throw new Error('unforeseen');
  });
  await expect(throwing).rejects.toThrow('unforeseen');
  expect(await send(() => {})).toBe('served');
});
