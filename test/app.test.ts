import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { App } from '../src/app.ts';
import type { Config } from '../src/config/config.ts';
import { createLogger } from '../src/telemetry/logger.ts';
import { startSilentUpstream } from './support/byte-upstream.ts';
import { createAuthority } from './support/certificates.ts';
import { send } from './support/client.ts';
import { openConnection, parseOnly } from './support/connection.ts';
import { eventually } from './support/eventually.ts';
import { startGateway } from './support/gateway.ts';
import { listens } from './support/listen.ts';
import { inFlight } from './support/metrics.ts';
import { acme, configOf, keys, route, startSidecar, type TestSidecar } from './support/sidecar.ts';
import { settle } from './support/turns.ts';
import { startUpstream, type TestUpstream } from './support/upstream.ts';
import { startWebSocketUpstream } from './support/web-socket-upstream.ts';

const key = keys.globex;

/** Starts a sidecar, and an upstream that responds when the test tells it to. */
async function startWaiting(timeouts: Partial<Config['timeouts']> = {}): Promise<{
  readonly sidecar: TestSidecar;
  readonly upstream: TestUpstream;
  readonly respondToAll: () => void;
}> {
  const waiting: (() => void)[] = [];
  const upstream = await startUpstream((_seen, res) => void waiting.push(() => void res.end('{}')));
  const sidecar = await startSidecar(configOf(upstream.origin, { timeouts }));
  return { sidecar, upstream, respondToAll: () => waiting.splice(0).forEach((respond) => respond()) };
}

/** Like `startWaiting`, but with one request in flight. @returns the response to this request, too */
async function startBusy(timeouts: Partial<Config['timeouts']> = {}) {
  const started = await startWaiting(timeouts);
  const pending = send(started.sidecar, 'GET /', { key });
  await vi.waitFor(() => expect(started.upstream.heads()).toBe(1));
  return { ...started, pending };
}

async function readiness(sidecar: TestSidecar): Promise<number> {
  return (await fetch(`${sidecar.adminUrl}/readyz`)).status;
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

test('health checks do not count accounts and keys, because an accounts file may have thousands', async () => {
  let reads = 0;
  const counted = Object.defineProperty({ ...acme }, 'keys', {
    enumerable: true,
    get: () => ((reads += 1), acme.keys),
  });
  const { adminUrl } = await startSidecar(configOf('http://127.0.0.1:1', { accounts: [counted] }));
  reads = 0;
  expect((await fetch(`${adminUrl}/readyz`)).status).toBe(200);
  expect(reads).toBe(0);
  await (await fetch(`${adminUrl}/metrics`)).text();
  expect(reads).toBeGreaterThan(0);
});

describe('while the sidecar drains', () => {
  test('a request in flight gets its response, and its connection is closed', async () => {
    const { sidecar, upstream, respondToAll } = await startWaiting();
    const client = await openConnection(sidecar.port);
    client.send(get('/before'));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const drained = sidecar.app.drain();
    expect(await readiness(sidecar)).toBe(503);
    respondToAll();
    const response = parseOnly(await client.untilEnded());
    expect([response.status, response.headers['connection'], client.ending]).toEqual([200, 'close', 'end']);
    await drained;
  });

  test('new requests are served, on new and on open connections, which are then closed', async () => {
    const { sidecar, upstream } = await startGateway();
    const open = await openConnection(sidecar.port);
    open.send(get('/first'));
    await open.untilText('{"ok":true}');
    await sidecar.app.drain();

    open.send(get('/second'));
    const [, second] = (await open.untilEnded()).split('{"ok":true}');
    expect(parseOnly(`${second}{"ok":true}`).headers['connection']).toBe('close');
    const response = await send(sidecar, 'GET /third', { key, headers: { Connection: 'keep-alive' } });
    expect([response.status, response.headers.connection]).toEqual([200, 'close']);
    const refused = await send(sidecar, 'GET /fourth', { headers: { Connection: 'keep-alive' } });
    expect([refused.status, refused.headers.connection]).toEqual([401, 'close']);
    expect(upstream.heads()).toBe(3);
  });
});

describe('when the sidecar is stopped', () => {
  test('all listeners and connections are closed if no request is in flight', async () => {
    const { sidecar } = await startGateway();
    const idle = await openConnection(sidecar.port);
    idle.send(get('/'));
    await idle.untilText('{"ok":true}');
    await sidecar.app.stop();
    await idle.untilEnded();
    expect(idle.ending).toBe('end');
    expect(await listens(sidecar.port)).toBe(false);
    expect(await listens(Number(new URL(sidecar.adminUrl).port))).toBe(false);
    expect(sidecar.log.at(-1)).toMatchObject({ msg: 'stopped' });
  });

  test('a request that arrives on an open connection at the moment of the stop is served', async () => {
    const { sidecar } = await startGateway();
    const client = await openConnection(sidecar.port);
    client.send(get('/1'));
    await client.untilText('{"ok":true}');
    const stopped = sidecar.app.stop();
    client.send(get('/2'));
    await client.untilText('{"ok":true}', 2);
    await stopped;
  });

  test('new connections are refused after a moment, while requests in flight continue', async () => {
    const { sidecar, pending, respondToAll } = await startBusy();
    const stopped = sidecar.app.stop();
    await eventually('the listener refuses connections', async () => !(await listens(sidecar.port)));
    expect(await inFlight(sidecar)).toBe(1);
    respondToAll();
    expect((await pending).status).toBe(200);
    await stopped;
  });

  test('a request that takes longer than timeouts.drain is visibly aborted and logged', async () => {
    let closed = 0;
    const upstream = await startUpstream((seen, res, req) => {
      req.socket.on('close', () => (closed += 1));
      if (seen.url === '/half') res.write('half');
    });
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { drain: 300 } }));
    const clients = await Promise.all([openConnection(sidecar.port), openConnection(sidecar.port)]);
    clients[0]?.send(get('/hangs'));
    clients[1]?.send(get('/half'));
    await clients[1]?.untilText('half');
    await vi.waitFor(() => expect(upstream.heads()).toBe(2));
    await sidecar.app.stop();
    expect(await clients[0]?.untilEnded()).toBe('');
    expect(await clients[1]?.untilEnded()).toMatch(/^HTTP\/1\.1 200 [^]*\r\n4\r\nhalf\r\n$/);
    await vi.waitFor(() => expect(closed).toBe(2));
    const stoppedAt = sidecar.log.findIndex(({ msg }) => msg === 'stopped');
    expect(sidecar.log.slice(0, stoppedAt).filter(({ msg }) => msg === 'request')).toHaveLength(2);
  });

  test('WebSockets are closed after timeouts.drain', async () => {
    const upstream = await startWebSocketUpstream();
    const sidecar = await startSidecar(
      configOf(upstream.origin, { routes: [route('/ws', { upgrade: true })], timeouts: { drain: 300 } }),
    );
    const socket = new WebSocket(`ws://127.0.0.1:${sidecar.port}/ws`, { headers: { authorization: `Bearer ${key}` } });
    socket.on('error', () => {});
    await once(socket, 'open');
    const closed = Promise.all([socket, ...upstream.sockets].map((side) => once(side, 'close')));
    expect(upstream.sockets).toHaveLength(1);
    await sidecar.app.stop();
    await closed;
  });

  const authority = createAuthority();
  const tls = { ...authority.issue('DNS:localhost'), clientCa: undefined };
  test.each([
    ['sends nothing', '', undefined],
    ['is in the middle of a head', 'GET / HTTP/1.1\r\nHost: local', undefined],
    ['asked for a tunnel', 'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n', undefined],
    ['has not completed its TLS handshake', '\x16\x03\x01\x02\x00', tls],
  ])('a client that %s does not delay the stop', async (_name, bytes, secured) => {
    const upstream = await startUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls: secured };
    const sidecar = await startSidecar(configOf(upstream.origin, { listen, timeouts: { drain: 300, header: 60_000 } }));
    const client = await openConnection(sidecar.port);
    client.send(bytes);
    await settle();
    expect(await Promise.race([sidecar.app.stop().then(() => 'stopped'), sleep(5_000, 'hangs', { ref: false })])).toBe(
      'stopped',
    );
  });

  test('an upstream that never completes a connection does not delay the stop', async () => {
    const { origin } = await startSilentUpstream();
    const timeouts = { connect: 20_000, drain: 200 };
    const sidecar = await startSidecar(configOf(origin.replace('http:', 'https:'), { timeouts }));
    const pending = send(sidecar, 'GET /', { key }).catch(() => 'broken off');
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    await sidecar.app.stop();
    expect(await pending).toBe('broken off');
  });
});

describe('an address in use', () => {
  test.each(['listen', 'admin'] as const)(
    'fails the start with an error that names it, and leaves nothing open: %s',
    async (member) => {
      const { port } = await startSilentUpstream();
      const lines: string[] = [];
      const log = createLogger('info', { write: (line: string) => void lines.push(line) });
      const taken = { host: '127.0.0.1', port };
      const config = configOf(
        'http://127.0.0.1:9',
        member === 'listen' ? { listen: { ...taken, tls: undefined } } : { admin: taken },
      );
      const app = new App(config, { log, clock: Date.now, version: '0.0.0', env: {}, digests: {} });
      await expect(app.start()).rejects.toThrow(`listen EADDRINUSE: address already in use 127.0.0.1:${port}`);
      for (const line of lines) {
        const { port: opened } = JSON.parse(line) as { port?: number };
        if (opened !== undefined) expect(await listens(opened)).toBe(false);
      }
    },
  );
});
