import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { openConnection, type Connection } from '../support/connection.ts';
import { floodWhileBlocked } from '../support/flood.ts';
import { inFlight } from '../support/metrics.ts';
import { authorization, request, valid } from '../support/refused.ts';
import { configOf, keys, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
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

async function endings(...clients: readonly Connection[]): Promise<string[]> {
  await new Promise((resolve) => void setTimeout(resolve, 100));
  return clients.map(({ ending }) => (ending === 'open' ? 'open' : 'closed'));
}

describe('beyond limits.connections', () => {
  test('the connection that has been idle longest without ever carrying a known key is closed for a new one', async () => {
    const sidecar = await start();
    const known = await openKnown(sidecar);
    const guest = await openGuest(sidecar);
    const silent = await openConnection(sidecar.port);
    // Used again, the guest has been idle for less time than the silent connection.
    await guest.send(request('GET / HTTP/1.1', 'Host: localhost')).untilText('}', 2);
    expect(await endings(known, guest, silent)).toEqual(['open', 'open', 'open']);
    const next = await openKnown(sidecar);
    expect(await endings(known, guest, silent, next)).toEqual(['open', 'open', 'closed', 'open']);
    const last = await openKnown(sidecar);
    expect(await endings(known, guest, next, last)).toEqual(['open', 'closed', 'open', 'open']);
  });

  test('the new connection is closed if all others have carried a known key', async () => {
    const sidecar = await start();
    const clients = [await openKnown(sidecar), await openKnown(sidecar), await openKnown(sidecar)];
    const next = await openConnection(sidecar.port);
    expect(await endings(...clients, next)).toEqual(['open', 'open', 'open', 'closed']);
    clients[0]?.socket.destroy();
    await vi.waitFor(async () => expect((await openKnown(sidecar)).ending).toBe('open'));
  });

  test('a public key is a known key', async () => {
    const sidecar = await start({ routes: [route('/', { keys: ['public'] })] });
    const visitor = await openConnection(sidecar.port);
    const visit = request('GET / HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.globexPublic}`);
    await visitor.send(visit).untilText('{"ok":true}');
    const guests = [await openGuest(sidecar), await openGuest(sidecar)];
    const next = await openConnection(sidecar.port);
    expect(await endings(visitor, ...guests, next)).toEqual(['open', 'closed', 'open', 'open']);
  });

  test('connections with half a head, or with a body that does not arrive, are closed for merchants', async () => {
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
    expect(await endings(...known)).toEqual(['open', 'open', 'open']);
    expect(new Set(await endings(...slow))).toEqual(new Set(['closed']));
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
    expect(await endings(busy, guest, next)).toEqual(['open', 'closed', 'open']);
  });

  test('a TLS connection counts from its start, and is closed for others while its handshake is incomplete', async () => {
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
    expect(await endings(...half)).toEqual(['closed', 'closed', 'closed']);
    const next = await openConnection(sidecar.port);
    expect(await endings(next)).toEqual(['closed']);
    expect(whole.every(({ destroyed }) => !destroyed)).toBe(true);
    // A connection that ends makes room for another.
    whole[0]?.destroy();
    await new Promise((resolve) => void setTimeout(resolve, 100));
    expect(await endings(await openConnection(sidecar.port))).toEqual(['open']);
  });

  test('a TLS handshake that is not complete when the sidecar stops is not completed', async () => {
    const own = createAuthority().issue('IP:127.0.0.1');
    const sidecar = await start({ listen: { host: '127.0.0.1', port: 0, tls: { ...own, clientCa: undefined } } });
    const half = await openConnection(sidecar.port);
    await sidecar.app.stop();
    await vi.waitFor(() => expect(half.ending).not.toBe('open'));
  });

  test('a reload may change the limit', async () => {
    const sidecar = await start();
    const upstream = await startUpstream();
    sidecar.app.apply(configOf(upstream.origin, { limits: { connections: 1 } }));
    const first = await openConnection(sidecar.port);
    const second = await openConnection(sidecar.port);
    expect(await endings(first, second)).toEqual(['closed', 'open']);
  });
});

describe('the heads of requests that wait in a pipeline', () => {
  const header = 4_096;
  /** Sends a request that gets no response, and after it heads of this many bytes in all. */
  async function pipelined(bytes: number): Promise<string[]> {
    const sidecar = await start({ limits: { header } });
    const client = await openConnection(sidecar.port);
    client.send(request('GET /never HTTP/1.1', 'Host: localhost', authorization));
    const head = (size: number): string => {
      const rest = request('GET / HTTP/1.1', 'Host: localhost', authorization, 'X: ').length;
      return request('GET / HTTP/1.1', 'Host: localhost', authorization, `X: ${'x'.repeat(size - rest)}`);
    };
    client.send(head(bytes / 2) + head(Math.ceil(bytes / 2)));
    return endings(client);
  }

  test('may have as many bytes as one head, and not one more', async () => {
    expect(await pipelined(header)).toEqual(['open']);
    expect(await pipelined(header + 1)).toEqual(['closed']);
  });
});

test('connections of a flood that comes between two turns of the event loop wait in the kernel, and none is dropped', async () => {
  // One socket accepts them all.
  const sidecar = await start({ limits: { connections: 1 } });
  expect(floodWhileBlocked(sidecar.port, 1_500)).toBe(1_500);
});
