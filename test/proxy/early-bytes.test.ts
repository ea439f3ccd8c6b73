import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startByteUpstream, startSilentUpstream, type ByteUpstream } from '../support/byte-upstream.ts';
import { createAuthority } from '../support/certificates.ts';
import { openConnection } from '../support/connection.ts';
import { limitUsed } from '../support/metrics.ts';
import { authorization, request } from '../support/refused.ts';
import { configOf, route, startSidecar, type TestSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';

const routes = [route('/ws', { upgrade: true, keys: ['public', 'secret'] })];
const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
const handshake = request('GET /ws HTTP/1.1', 'Host: localhost', authorization, ...upgrade);
const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
/** The maximum number of bytes that a client may send before the 101 response. */
const most = 4_096;

/** Waits until the upstream has the handshake. */
async function forwarded(upstream: ByteUpstream): Promise<void> {
  await vi.waitFor(() => expect(upstream.connections[0]?.received).toContain('\r\n\r\n'));
}

/** Expects that the handshake ends before any timeout of the sidecar, and that nothing but the handshake was forwarded. */
async function expectOver(sidecar: TestSidecar, upstream: ByteUpstream): Promise<void> {
  await vi.waitFor(() => expect(upstream.connections[0]?.closed).toBe(true));
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
  await vi.waitFor(async () => expect(await limitUsed(sidecar, 'connections')).toBe(0));
  expect(upstream.connections).toHaveLength(1);
  expect(upstream.connections[0]?.received.endsWith('\r\n\r\n')).toBe(true);
  expect(sidecar.accessLines()).toMatchObject([{ status: 499 }]);
}

describe('a client that leaves while the upstream has not responded to its handshake', () => {
  test.each([
    ['without a further byte', '', ''],
    ['after bytes with the head', 'early', ''],
    ['after later bytes', '', 'early'],
    ['after as many bytes as are kept', 'x'.repeat(2_000), 'x'.repeat(most - 2_000)],
  ])('%s ends it', async (_name, first, later) => {
    const upstream = await startSilentUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
    const client = await openConnection(sidecar.port);
    client.send(handshake + first);
    await forwarded(upstream);
    if (later !== '') client.send(later);
    await settle();
    // The client closes only its own side. The sidecar closes the other.
    client.socket.end();
    await client.untilEnded();
    await expectOver(sidecar, upstream);
  });

  test.each(['', 'early'])('over TLS ends it (%j)', async (early) => {
    const authority = createAuthority();
    const tls = { ...authority.issue('IP:127.0.0.1'), clientCa: undefined };
    const upstream = await startSilentUpstream();
    const listen = { host: '127.0.0.1', port: 0, tls };
    const sidecar = await startSidecar(configOf(upstream.origin, { routes, listen }));
    const client = connectTls({ host: '127.0.0.1', port: sidecar.port, ca: authority.cert });
    onTestFinished(() => void client.destroy());
    client.on('error', () => {}).resume();
    await once(client, 'secureConnect');
    client.write(handshake + early);
    await forwarded(upstream);
    client.end();
    await expectOver(sidecar, upstream);
  });
});

describe('bytes that a client sends before the 101', () => {
  /** Starts a sidecar and an upstream that sends nothing by itself, so that the test decides when to send the 101. */
  async function startSwitching() {
    const upstream = await startByteUpstream(() => {});
    const sidecar = await startSidecar(configOf(upstream.origin, { routes }));
    const client = await openConnection(sidecar.port);
    return { upstream, sidecar, client, connection: () => upstream.connections[0] };
  }

  test.each([
    ['none', '', []],
    ['with the head', 'first', []],
    ['in pieces', 'one,', ['two,', 'three,']],
    ['as many as are kept', 'x'.repeat(96), ['y'.repeat(2_000), 'z'.repeat(2_000)]],
  ])('are forwarded after it, and so are all that follow: %s', async (_name, first, pieces) => {
    const { upstream, client, connection } = await startSwitching();
    client.send(handshake + first);
    await forwarded(upstream);
    for (const piece of pieces) {
      client.send(piece);
      await settle();
    }
    expect(connection()?.received.endsWith('\r\n\r\n')).toBe(true);
    const head = connection()?.received ?? '';
    connection()?.socket.write(`${switching}welcome`);
    await client.untilText('\r\n\r\nwelcome');
    client.send('later').socket.end();
    await vi.waitFor(() => expect(connection()?.closed).toBe(true));
    expect(connection()?.received).toBe(`${head}${first}${pieces.join('')}later`);
  });

  test.each([
    ['with the head', 'x'.repeat(most + 1), ''],
    ['later', 'x', 'y'.repeat(most)],
  ])('end the handshake if they are more than 4 KiB: %s', async (_name, first, later) => {
    const { upstream, sidecar, client } = await startSwitching();
    client.send(handshake + first);
    if (later !== '') {
      await forwarded(upstream);
      client.send(later);
    }
    await client.untilEnded();
    expect(client.received).toBe('');
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
    expect(sidecar.accessLines()).toMatchObject([{ status: 444, closed: 'early_bytes' }]);
    expect(upstream.connections.map(({ received }) => received.split('\r\n\r\n')[1])).toEqual(later === '' ? [] : ['']);
  });
});
