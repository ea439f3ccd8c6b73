import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { listen } from '../../src/http.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { floodWhileBlocked } from '../support/flood.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { authorization, request, valid } from '../support/refused.ts';
import { configOf, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const limit = 3;

async function start(more: Parameters<typeof configOf>[1] = {}): Promise<TestSidecar> {
  const upstream = await startUpstream((seen, res) => void (seen.url !== '/never' && res.end('{"ok":true}')));
  return startSidecar(configOf(upstream.origin, { limits: { connections: limit }, ...more }));
}

/** A connection that has carried a known key. */
async function openKnown({ port }: TestSidecar): Promise<Connection> {
  const client = await openConnection(port);
  await client.send(valid).untilText('{"ok":true}');
  return client;
}

/** A connection that has carried a request without a key. */
async function openGuest({ port }: TestSidecar): Promise<Connection> {
  const client = await openConnection(port);
  await client.send(request('GET / HTTP/1.1', 'Host: localhost')).untilText('}');
  return client;
}

type Ending = 'open' | 'closed';

/** Waits until the connections are open or closed as expected, and checks that they stay that way. */
async function expectEndings(clients: readonly Connection[], ...expected: readonly Ending[]): Promise<void> {
  const endings = (): Ending[] => clients.map(({ ending }) => (ending === 'open' ? 'open' : 'closed'));
  await vi.waitFor(() => expect(endings()).toEqual(expected));
  await settle();
  expect(endings()).toEqual(expected);
}

describe('beyond limits.connections', () => {
  test('a new connection replaces the one that has been idle longest without ever carrying a known key', async () => {
    const sidecar = await start();
    const known = await openKnown(sidecar);
    const guest = await openGuest(sidecar);
    const silent = await openConnection(sidecar.port);
    // After this request, the guest has been idle for less time than the silent connection.
    await guest.send(request('GET / HTTP/1.1', 'Host: localhost')).untilText('}', 2);
    await expectEndings([known, guest, silent], 'open', 'open', 'open');
    const next = await openKnown(sidecar);
    await expectEndings([known, guest, silent, next], 'open', 'open', 'closed', 'open');
    const last = await openKnown(sidecar);
    await expectEndings([known, guest, next, last], 'open', 'closed', 'open', 'open');
  });

  test('a new connection is closed if all others have carried a known key', async () => {
    const sidecar = await start();
    const clients = [await openKnown(sidecar), await openKnown(sidecar), await openKnown(sidecar)];
    const next = await openConnection(sidecar.port);
    await expectEndings([...clients, next], 'open', 'open', 'open', 'closed');
    clients[0]?.socket.destroy();
    await vi.waitFor(async () => expect((await openKnown(sidecar)).ending).toBe('open'));
  });

  test('a public key counts as a known key', async () => {
    const sidecar = await start({ routes: [route('/', { keys: ['public'] })] });
    const visitor = await openConnection(sidecar.port);
    const visit = request('GET / HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.globexPublic}`);
    await visitor.send(visit).untilText('{"ok":true}');
    const guests = [await openGuest(sidecar), await openGuest(sidecar)];
    const next = await openConnection(sidecar.port);
    await expectEndings([visitor, ...guests, next], 'open', 'closed', 'open', 'open');
  });

  test('connections with an incomplete head or body make room for those with a known key', async () => {
    const sidecar = await start();
    const slow = [];
    for (let i = 0; i < 5 * limit; i += 1) {
      const client = await openConnection(sidecar.port);
      const body = 'POST /api/s2s/aes-encrypt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n';
      client.send(
        i % 2 === 0 ? 'GET / HTTP/1.1\r\nHost: loc' : `${body}key: ${'k'.repeat(32)}\r\niv: ${'i'.repeat(16)}\r\n\r\n{`,
      );
      slow.push(client);
    }
    const known = [await openKnown(sidecar), await openKnown(sidecar), await openKnown(sidecar)];
    await expectEndings(known, 'open', 'open', 'open');
    await expectEndings(slow, ...slow.map(() => 'closed' as const));
  });

  test('a connection whose request is in progress stays open, even without a key', async () => {
    const routes = [route('/never', { keys: ['public'] })];
    const sidecar = await start({ routes, limits: { connections: 2 } });
    const busy = await openConnection(sidecar.port);
    const cors = ['Origin: https://shop.example', 'Access-Control-Request-Method: POST'];
    busy.send(request('OPTIONS /never HTTP/1.1', 'Host: localhost', ...cors));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(1));
    const guest = await openGuest(sidecar);
    const next = await openKnown(sidecar);
    await expectEndings([busy, guest, next], 'open', 'closed', 'open');
  });

  test('a TLS connection counts from its start, and makes room for others until its handshake is complete', async () => {
    const authority = createAuthority();
    const own = authority.issue('IP:127.0.0.1');
    const sidecar = await start({ listen: { host: '127.0.0.1', port: 0, tls: { ...own, clientCa: undefined } } });
    const half = [
      await openConnection(sidecar.port),
      await openConnection(sidecar.port),
      await openConnection(sidecar.port),
    ];
    const whole = [];
    for (let i = 0; i < limit; i += 1) {
      const socket = connectTls({ host: '127.0.0.1', port: sidecar.port, ca: authority.cert });
      onTestFinished(() => void socket.destroy());
      const response = new Promise<string>(
        (resolve) => void socket.once('data', (data: Buffer) => resolve(data.toString())),
      );
      socket.on('error', () => {}).write(valid);
      expect(await response).toContain('200 OK');
      whole.push(socket);
    }
    await expectEndings(half, 'closed', 'closed', 'closed');
    await expectEndings([await openConnection(sidecar.port)], 'closed');
    expect(whole.every(({ destroyed }) => !destroyed)).toBe(true);
    // A connection that ends makes room for another.
    whole[0]?.destroy();
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'connections')).toBe(limit - 1));
    await expectEndings([await openConnection(sidecar.port)], 'open');
  });

  test('a reload applies a new limit', async () => {
    const sidecar = await start();
    const upstream = await startUpstream();
    sidecar.app.apply(configOf(upstream.origin, { limits: { connections: 1 } }));
    const first = await openConnection(sidecar.port);
    const second = await openConnection(sidecar.port);
    await expectEndings([first, second], 'closed', 'open');
  });
});

test('a stop closes a connection whose TLS handshake is incomplete', async () => {
  const own = createAuthority().issue('IP:127.0.0.1');
  // The deadline of the handshake is long after the end of the test.
  const timeouts = { header: 60_000 };
  const sidecar = await start({
    timeouts,
    listen: { host: '127.0.0.1', port: 0, tls: { ...own, clientCa: undefined } },
  });
  const half = await openConnection(sidecar.port);
  await sidecar.app.stop();
  await half.untilEnded();
});

test('connections that arrive between two turns of the event loop wait in the kernel, and none is dropped', async () => {
  // Flood a plain server. The merchants' listener has several sockets, each of which would have to be flooded.
  const server = createServer((socket) => socket.destroy());
  onTestFinished(() => void server.close());
  const { port } = await listen(server, { host: '127.0.0.1', port: 0 });
  expect(floodWhileBlocked(port, 1_500)).toBe(1_500);
});

test('a head that comes in two pieces does not give way to smaller heads without a key that never end', async () => {
  const upstream = await startUpstream();
  // Clients without a key get an eighth of `buffered`: 10,000 bytes.
  const sidecar = await startSidecar(configOf(upstream.origin, { limits: { buffered: 80_000, requestBody: 1_000 } }));
  const strangers = await Promise.all(Array.from({ length: 10 }, () => openConnection(sidecar.port)));
  for (const stranger of strangers) stranger.send(`GET / HTTP/1.1\r\nX: ${'x'.repeat(880)}`);
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBeGreaterThan(8_900));
  await delay(3_000);
  const merchant = await openConnection(sidecar.port);
  merchant.send(`GET / HTTP/1.1\r\nHost: localhost\r\n${authorization}\r\nX: ${'x'.repeat(2_000)}`);
  await vi.waitFor(() => expect(strangers.some(({ ending }) => ending !== 'open')).toBe(true));
  for (const stranger of strangers) if (stranger.ending === 'open') stranger.send('x'.repeat(400));
  await settle();
  merchant.send('\r\n\r\n');
  expect(await merchant.untilText('HTTP/1.1 200')).toBeDefined();
});
