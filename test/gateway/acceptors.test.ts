import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Acceptors, http } from '../../src/http.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection } from '../support/connection.ts';
import { freePort } from '../support/free-port.ts';
import { floodWhileBlocked } from '../support/flood.ts';
import { startGateway } from '../support/gateway.ts';
import { inFlight, limitUsed } from '../support/metrics.ts';
import { authorization, request, valid } from '../support/refused.ts';
import { configOf, startSidecar } from '../support/sidecar.ts';
import { turnsOfConnections } from '../support/turns.ts';
import { startUpstream } from '../support/upstream.ts';

const clients = 40;

test('more than eight connections are accepted in a turn of the event loop', async () => {
  const sidecar = await startSidecar(configOf('http://127.0.0.1:9', { limits: { connections: 1_024 } }));
  const flood = 320;
  const turns = turnsOfConnections();
  expect(floodWhileBlocked(sidecar.port, flood)).toBe(flood);
  await vi.waitFor(() => expect(turns).toHaveLength(flood), 10_000);
  // With 128 sockets the longest queue is about eight.
  expect(new Set(turns).size).toBeLessThan(flood / 8);
});

describe('a port that several sockets share', () => {
  test('cannot be taken by a second sidecar', async () => {
    const { upstream, at } = await first();
    const second = startSidecar(configOf(upstream.origin, { listen: { ...at, tls: undefined } }));
    await expect(second).rejects.toThrow(`listen EADDRINUSE: address already in use 127.0.0.1:${at.port}`);
    const client = await openConnection(at.port);
    await client.send(valid).untilText('{"ok":true}');
  });

  test('goes to the first of two sidecars that start at the same time', async () => {
    for (let ticks = 0; ticks < 10; ticks += 1) {
      const at = { host: '127.0.0.1', port: await freePort() };
      const first = acceptors().open(at);
      // Opening takes several ticks: the second sidecar begins between two of them.
      for (let tick = 0; tick < ticks; tick += 1) await new Promise<void>((resolve) => process.nextTick(resolve));
      const second = acceptors().open(at);
      await expect(second).rejects.toThrow(`listen EADDRINUSE: address already in use 127.0.0.1:${at.port}`);
      await first;
    }
  });

  test.each([
    ['127.0.0.2', false],
    ['0.0.0.0', true],
    ['::', true],
  ])('goes to a second sidecar at the same time on %s, unless the addresses overlap: %s', async (host, overlaps) => {
    const port = await freePort();
    const first = acceptors().open({ host: '127.0.0.1', port });
    const second = acceptors().open({ host, port });
    if (overlaps) await expect(second).rejects.toThrow(/^listen EADDRINUSE: address already in use/);
    else await expect(second).resolves.toMatchObject({ address: host, port });
    await first;
  });

  test('is refused while another process keeps the claim on it', async () => {
    const port = await freePort();
    const claim = createServer().listen(`\0envelope-sidecar port ${port}`);
    onTestFinished(() => void claim.close());
    await once(claim, 'listening');
    const opened = acceptors().open({ host: '127.0.0.1', port });
    await expect(opened).rejects.toThrow(`listen EADDRINUSE: address already in use 127.0.0.1:${port}`);
  });

  test('can be bound again by its number, and every connection to it is counted', async () => {
    const { sidecar, upstream, at } = await first();
    await sidecar.app.stop();
    const again = await startSidecar(configOf(upstream.origin, { listen: { ...at, tls: undefined } }));
    expect(again.port).toBe(at.port);
    for (let i = 0; i < clients; i += 1) {
      await (await openConnection(at.port)).send(valid).untilText('{"ok":true}');
    }
    expect(await limitUsed(again, 'connections')).toBe(clients);
  });

  test('closes as a whole on a stop: requests in flight get their responses, and new connections are refused', async () => {
    const waiting: (() => void)[] = [];
    const upstream = await startUpstream((_, res) => void waiting.push(() => res.end('{"late":true}')));
    const sidecar = await startSidecar(configOf(upstream.origin));
    const open = await Promise.all(Array.from({ length: clients }, () => openConnection(sidecar.port)));
    for (const client of open) client.send(request('GET /late HTTP/1.1', 'Host: localhost', authorization));
    await vi.waitFor(async () => expect(await inFlight(sidecar)).toBe(clients));
    const stopped = sidecar.app.stop();
    await vi.waitFor(() => expect(isRefused(sidecar.port)).resolves.toBe(true), 5_000);
    for (let i = 0; i < clients; i += 1) expect(await isRefused(sidecar.port)).toBe(true);
    await vi.waitFor(() => expect(waiting).toHaveLength(clients));
    for (const respond of waiting) respond();
    for (const client of open) expect(await client.untilEnded()).toContain('{"late":true}');
    await stopped;
  });

  test('speaks TLS on all sockets', async () => {
    const authority = createAuthority();
    const own = authority.issue('IP:127.0.0.1');
    const upstream = await startUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls: { ...own, clientCa: undefined } };
    const sidecar = await startSidecar(configOf(upstream.origin, { listen }));
    const statuses = Array.from({ length: clients }, async () => {
      const socket = connectTls({ host: '127.0.0.1', port: sidecar.port, ca: authority.cert });
      onTestFinished(() => void socket.destroy());
      socket.write(valid);
      const [data] = (await once(socket, 'data')) as [Buffer];
      return data.toString().slice(0, 15);
    });
    expect(new Set(await Promise.all(statuses))).toEqual(new Set(['HTTP/1.1 200 OK']));
  });

  /** Two sockets. */
  function acceptors(): Acceptors {
    const acceptors = new Acceptors(http.createServer(), 16);
    onTestFinished(() => acceptors.close());
    return acceptors;
  }

  async function first() {
    const { sidecar, upstream } = await startGateway();
    return { upstream, sidecar, at: { host: '127.0.0.1', port: sidecar.port } };
  }
});

/** Whether a new connection is refused, not merely ended. */
async function isRefused(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const refused = new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(false));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
  return refused.finally(() => socket.destroy());
}
