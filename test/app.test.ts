import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { App } from '../src/app.ts';
import { createLogger } from '../src/telemetry/logger.ts';
import { createAuthority } from './support/certificates.ts';
import { send } from './support/client.ts';
import { openConnection, parseOnly } from './support/connection.ts';
import { inFlight } from './support/metrics.ts';
import { configOf, keys, route, startSidecar, type TestSidecar } from './support/sidecar.ts';
import { startUpstream, type TestUpstream } from './support/upstream.ts';

const key = keys.globex;

/** An upstream that answers when it is told to. */
async function startPatient(): Promise<{ upstream: TestUpstream; answerAll: () => void }> {
  const responses: (() => void)[] = [];
  const upstream = await startUpstream((_seen, res) => void responses.push(() => void res.end('{}')));
  return { upstream, answerAll: () => responses.splice(0).forEach((response) => response()) };
}

async function readiness(sidecar: TestSidecar): Promise<number> {
  return (await fetch(`${sidecar.adminUrl}/readyz`)).status;
}

/** Whether a server listens there. */
async function listens(port: number): Promise<boolean> {
  return openConnection(port).then(
    () => true,
    () => false,
  );
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

describe('while it drains', () => {
  test('a request in flight is answered, and its connection closed', async () => {
    const { upstream, answerAll } = await startPatient();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(get('/before'));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const drained = sidecar.app.drain();
    expect(await readiness(sidecar)).toBe(503);
    answerAll();
    const response = parseOnly(await client.untilEnded());
    expect([response.status, response.headers['connection'], client.ending]).toEqual([200, 'close', 'end']);
    await drained;
  });

  test('new requests are answered too, on new connections and on those that were open, and close them', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin));
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

  test('it ends as soon as no request is in flight', async () => {
    const { upstream, answerAll } = await startPatient();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const pending = send(sidecar, 'GET /', { key });
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    let over = false;
    const drained = sidecar.app.drain().then(() => (over = true));
    await sleep(100);
    expect(over).toBe(false);
    answerAll();
    expect((await pending).status).toBe(200);
    await drained;
  });

  test('it is over when its time is', async () => {
    const { upstream } = await startPatient();
    const sidecar = await startSidecar(configOf(upstream.origin, { timeouts: { drain: 200 } }));
    const pending = send(sidecar, 'GET /', { key }).catch(() => undefined);
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    await sidecar.app.drain();
    expect(await inFlight(sidecar)).toBe(1);
    await sidecar.app.stop();
    await pending;
  });
});

describe('when it is stopped', () => {
  test('it closes everything if no request is in flight', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin));
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

  test('a request that comes on an open connection at that moment is still answered', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const client = await openConnection(sidecar.port);
    client.send(get('/1'));
    await client.untilText('{"ok":true}');
    const stopped = sidecar.app.stop();
    client.send(get('/2'));
    await client.untilText('{"ok":true}', 2);
    await stopped;
  });

  test('requests in flight are answered first', async () => {
    const { upstream, answerAll } = await startPatient();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const pending = send(sidecar, 'GET /', { key });
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const stopped = sidecar.app.stop();
    await sleep(100);
    answerAll();
    expect((await pending).status).toBe(200);
    await stopped;
  });

  test('new requests are refused after a moment: they would use up the time of those in flight', async () => {
    const { upstream, answerAll } = await startPatient();
    const sidecar = await startSidecar(configOf(upstream.origin));
    const pending = send(sidecar, 'GET /', { key });
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const stopped = sidecar.app.stop();
    await vi.waitUntil(async () => !(await listens(sidecar.port)), { timeout: 10_000 });
    expect(await inFlight(sidecar)).toBe(1);
    answerAll();
    expect((await pending).status).toBe(200);
    await stopped;
  });

  test('a request that takes too long is broken off, visibly, and logged', async () => {
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

  test('WebSockets are let go when the time is over', async () => {
    const webSockets = new WebSocketServer({ host: '127.0.0.1', port: 0 });
    await once(webSockets, 'listening');
    onTestFinished(() => webSockets.close());
    const { port } = webSockets.address() as AddressInfo;
    const config = configOf(`http://127.0.0.1:${port}`, {
      routes: [route('/ws', { upgrade: true })],
      timeouts: { drain: 300 },
    });
    const sidecar = await startSidecar(config);
    const socket = new WebSocket(`ws://127.0.0.1:${sidecar.port}/ws`, { headers: { authorization: `Bearer ${key}` } });
    socket.on('error', () => {});
    const connected = once(webSockets, 'connection');
    await once(socket, 'open');
    const [upstreamSocket] = (await connected) as [WebSocket];
    const closed = Promise.all([once(socket, 'close'), once(upstreamSocket, 'close')]);
    await sidecar.app.stop();
    await closed;
  });

  const authority = createAuthority();
  const tls = { ...authority.issue('DNS:localhost'), clientCa: undefined };
  test.each([
    ['says nothing', '', undefined],
    ['is in the middle of a head', 'GET / HTTP/1.1\r\nHost: local', undefined],
    ['asked for a tunnel', 'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n', undefined],
    ['has not finished its handshake', '\x16\x03\x01\x02\x00', tls],
  ])('a client that %s does not keep it up', async (_name, bytes, secured) => {
    const upstream = await startUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls: secured };
    const sidecar = await startSidecar(configOf(upstream.origin, { listen, timeouts: { drain: 300, header: 60_000 } }));
    const client = await openConnection(sidecar.port);
    client.send(bytes);
    await sleep(50);
    const stopped = sidecar.app.stop().then(() => 'stopped');
    expect(await Promise.race([stopped, new Promise((resolve) => void setTimeout(resolve, 5_000, 'hangs'))])).toBe(
      'stopped',
    );
  });

  test('an upstream that cannot be connected does not keep it up', async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    const sidecar = await startSidecar(
      configOf(`https://127.0.0.1:${port}`, { timeouts: { connect: 20_000, drain: 200 } }),
    );
    const pending = send(sidecar, 'GET /', { key }).catch(() => 'broken off');
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    await sidecar.app.stop();
    expect(await pending).toBe('broken off');
  });
});

describe('an address that is taken', () => {
  test.each(['listen', 'admin'] as const)('for %s is said clearly, and nothing stays open', async (member) => {
    const other = createServer();
    await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void other.close());
    const { port } = other.address() as AddressInfo;
    const lines: string[] = [];
    const log = createLogger('info', { write: (line: string) => void lines.push(line) });
    const taken = { host: '127.0.0.1', port };
    const config = configOf(
      'http://127.0.0.1:9',
      member === 'listen' ? { listen: { ...taken, tls: undefined } } : { admin: taken },
    );
    const app = new App(config, { log, clock: Date.now, version: '0.0.0', env: {} });
    await expect(app.start()).rejects.toThrow(`listen EADDRINUSE: address already in use 127.0.0.1:${port}`);
    for (const line of lines) {
      const { port: opened } = JSON.parse(line) as { port?: number };
      if (opened !== undefined) expect(await listens(opened)).toBe(false);
    }
  });
});
