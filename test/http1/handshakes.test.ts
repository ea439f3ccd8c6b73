import { once } from 'node:events';
import { connect as connectPlain, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Queue } from '../../src/http1/incoming.ts';
import type { ServerConnection } from '../../src/http1/connection.ts';
import { Listener } from '../../src/http1/listener.ts';
import type { HandshakeFault } from '../../src/tls.ts';
import { createAuthority } from '../support/certificates.ts';
import { recordHello } from '../support/hello.ts';
import { eventually } from '../support/eventually.ts';
import { untilCollected } from '../support/memory.ts';
import { manualQueue } from '../support/manual-queue.ts';

/** Starts a TLS listener. Returns the handshakes that wait for their turn, and a function that connects a client. */
async function start(hellos?: Queue) {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const limits = { maxHeadSize: 16_384, maxFields: 100 };
  const times = { headTimeout: 60_000, idleTimeout: 60_000, lingerTimeout: 60_000 };
  const { queue, waiting: handshakes } = manualQueue();
  const failures: HandshakeFault[] = [];
  const resting: (() => void)[] = [];
  const crowds: ServerConnection[] = [];
  const exceeding: ServerConnection[] = [];
  const connections: ServerConnection[] = [];
  const { server } = new Listener(
    {
      limits: { ...limits, ...times },
      tls: { cert, key },
      clock: Date.now,
      handshakes: queue,
      ...(hellos && { hellos }),
      onHandshakeFailure: (fault) => void failures.push(fault),
    },
    (connection) => {
      connections.push(connection);
      return {
        onRequest: (exchange) => exchange.send(200, [], 'served'),
        onExcess: () => void exceeding.push(connection),
        onCrowd: () => void crowds.push(connection),
        onError: (error) => expect.fail(String(error)),
        onClose: () => {},
        onSuspend: (resume) => void resting.push(resume),
        onHeld: () => true,
      };
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const open = (): TLSSocket => {
    const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {});
    onTestFinished(() => void client.destroy());
    return client;
  };
  return { port, open, handshakes, failures, resting, connections, crowds, exceeding };
}

async function connectRaw(port: number): Promise<Socket> {
  const client = connectPlain(port, '127.0.0.1').on('error', () => {});
  onTestFinished(() => void client.destroy());
  await once(client, 'connect');
  return client;
}

test('handshakes that are broken off leave nothing in memory', async () => {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  const limits = { maxHeadSize: 1, maxFields: 1, headTimeout: 60_000, idleTimeout: 60_000, lingerTimeout: 60_000 };
  const connections: WeakRef<ServerConnection>[] = [];
  let closed = 0;
  const { server } = new Listener({ limits, tls: { cert, key }, clock: Date.now }, (connection) => {
    connections.push(new WeakRef(connection));
    return {
      onRequest: () => expect.fail('there is none'),
      onExcess: () => {},
      onError: (error) => expect.fail(String(error)),
      onClose: () => void (closed += 1),
      onSuspend: (resume) => resume(),
      onHeld: () => true,
    };
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  for (let i = 0; i < 20; i += 1) {
    const client = await connectRaw(port);
    client.write(Buffer.from([22, 3, 1]));
    client.destroy();
  }
  await eventually('all are closed', () => closed === 20);
  await untilCollected(connections);
});

async function turns(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await nextTurn();
}

test('a handshake begins in its turn, whatever has arrived before', async () => {
  const { open, handshakes } = await start();
  const client = open();
  let isSecure = false;
  client.once('secureConnect', () => (isSecure = true));
  await eventually('the handshake waits', () => handshakes.length === 1);
  await turns();
  expect(isSecure).toBe(false);
  handshakes[0]?.();
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(String((await once(client, 'data'))[0])).toContain('served');
});

test('a client that leaves in the middle of its handshake is closed at once', async () => {
  const { port, handshakes, failures, connections } = await start();
  const client = await connectRaw(port);
  client.on('data', () => {}).write(await recordHello());
  await eventually('the handshake waits', () => handshakes.length === 1);
  handshakes[0]?.();
  await eventually('the client gets an answer', () => client.bytesRead > 0);
  client.end();
  await eventually('the connection is closed', () => connections[0]?.socket.destroyed === true);
  expect(failures).toEqual(['client_left']);
});

describe('of many handshakes in progress', () => {
  /** Begins the handshakes that wait, and this many more, of clients that send nothing more. */
  async function begin(count: number, { port, handshakes }: Awaited<ReturnType<typeof start>>): Promise<Socket[]> {
    const hello = await recordHello();
    const before = handshakes.length;
    const clients: Socket[] = [];
    for (let i = 0; i < count; i += 1) {
      const client = await connectRaw(port);
      clients.push(client);
      client.on('data', () => {}).write(hello);
      await eventually('the handshake waits', () => handshakes.length === before + i + 1);
    }
    for (const each of handshakes) each();
    await turns();
    return clients;
  }

  test('the newest are read at once, and the others in turns; none ends', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const listener = await start();
    const clients = await begin(100, listener);
    const before = listener.connections.map(({ socket }) => socket.bytesRead);
    const read = async (): Promise<number[]> => {
      await turns();
      await delay(100);
      return listener.connections.flatMap(({ socket }, i) => (socket.bytesRead > (before[i] ?? 0) ? [i] : []));
    };
    const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
    for (const client of clients) client.write(Buffer.of(22, 3, 3));
    expect(await read()).toEqual(range(36, 100));
    vi.advanceTimersByTime(5);
    expect(await read()).toEqual([...range(0, 32), ...range(36, 100)]);
    vi.advanceTimersByTime(5);
    expect(await read()).toEqual(range(0, 100));
    expect(listener.connections.some(({ socket }) => socket.destroyed)).toBe(false);
  });

  test('an old one is completed, and its client is then read whenever it sends', async () => {
    const listener = await start();
    const client = listener.open();
    await eventually('the handshake waits', () => listener.handshakes.length === 1);
    const secure = once(client, 'secureConnect');
    await begin(100, listener);
    await secure;
    await delay(50);
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(String((await once(client, 'data'))[0])).toContain('served');
  });
});

test('other clients wait if the rest of many handshakes arrives in one turn', async () => {
  const { open, handshakes, crowds } = await start();
  const secured: TLSSocket[] = [];
  for (let i = 0; i < 8; i += 1)
    open().once('secureConnect', function (this: TLSSocket) {
      secured.push(this);
    });
  await eventually('the handshakes wait', () => handshakes.length === 8);
  for (const begin of handshakes) begin();
  await eventually('the handshakes are complete', () => secured.length === 8);
  expect(crowds).toEqual([]);
  for (let i = 0; i < 9; i += 1) open();
  await eventually('more handshakes wait', () => handshakes.length === 17);
  for (const begin of handshakes.slice(8)) begin();
  await eventually('the handshakes count as a crowd', () => crowds.length === 1);
});

test('a client that sends more than 32 KiB before its handshake begins is closed, and nobody waits for it', async () => {
  const { port, handshakes, connections, crowds, exceeding } = await start();
  const client = await connectRaw(port);
  client.write(Buffer.concat([await recordHello(), Buffer.alloc(40_000)]));
  await eventually('the connection is closed', () => connections[0]?.socket.destroyed === true);
  expect([exceeding.length, crowds.length, handshakes.length]).toEqual([1, 0, 0]);
});

test('a client that leaves before its first byte, or before its turn, begins no handshake', async () => {
  const { port, handshakes, failures, connections } = await start();
  const silent = connectPlain(port, '127.0.0.1');
  await once(silent, 'connect');
  await eventually('the connection is accepted', () => connections.length === 1);
  silent.end();
  await eventually('the connection is closed', () => connections[0]?.socket.destroyed === true);
  expect(handshakes).toEqual([]);
  const leaving = await connectRaw(port);
  leaving.write(await recordHello());
  await eventually('the handshake waits', () => handshakes.length === 1);
  leaving.resetAndDestroy();
  await eventually('the handshake no longer waits', () => handshakes.length === 0);
  expect(connections[1]?.socket.destroyed).toBe(true);
  expect(failures).toEqual(['client_left']);
});

test('a handshake takes no turn before its first record is complete, however it arrives', async () => {
  const { port, handshakes, connections } = await start();
  const client = await connectRaw(port);
  const received: Buffer[] = [];
  client.on('data', (bytes: Buffer) => received.push(bytes));
  const hello = await recordHello();
  for (const byte of hello.subarray(0, -1)) {
    client.write(Buffer.of(byte));
    await nextTurn();
  }
  await eventually('all of it was read', () => connections[0]?.socket.bytesRead === hello.length - 1);
  await turns();
  expect(handshakes).toHaveLength(0);
  client.write(hello.subarray(-1));
  await eventually('the handshake waits', () => handshakes.length === 1);
  handshakes[0]?.();
  // 22 is the type of handshake records. This record contains the server's hello.
  await eventually('the client gets an answer', () => Buffer.concat(received)[0] === 22);
});

test('the rest of a first record that has begun to arrive is read in the client’s turn', async () => {
  const { queue, waiting } = manualQueue();
  const { port, handshakes, connections } = await start(queue);
  const hello = await recordHello();
  const client = await connectRaw(port);
  client.write(hello.subarray(0, 10));
  await eventually('the first client waits', () => waiting.length === 1);
  client.write(hello.subarray(10));
  await turns();
  expect(connections[0]?.socket.bytesRead).toBe(10);
  waiting.shift()?.();
  await eventually('the handshake waits', () => handshakes.length === 1);
  const other = await connectRaw(port);
  other.write(hello.subarray(0, 10));
  await eventually('the other client waits', () => waiting.length === 1);
  connections[1]?.destroy();
  await eventually('the other client no longer waits', () => waiting.length === 0);
});

test.each([
  ['plain HTTP', 'not_tls', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
  ['another type of record', 'not_tls', Buffer.of(23, 3, 1, 0, 5)],
  ['a first message that is too long', 'other', Buffer.of(22, 3, 1, 0x40, 1)],
])('%s is refused as %s, and takes no turn', async (_, fault, bytes) => {
  const { port, handshakes, failures } = await start();
  const client = await connectRaw(port);
  const closed = once(client, 'close');
  client.resume().write(bytes);
  await closed;
  expect(failures).toEqual([fault]);
  expect(handshakes).toEqual([]);
});

test('a client that leaves within the header of its first record is closed', async () => {
  const { port, handshakes, failures, connections } = await start();
  const client = await connectRaw(port);
  client.end(Buffer.of(22, 3, 1));
  await eventually('the connection is closed', () => connections[0]?.socket.destroyed === true);
  expect(handshakes).toEqual([]);
  expect(failures).toEqual(['client_left']);
});

test('a client whose handshake has not begun is not suspended', async () => {
  const { open, handshakes, resting, connections } = await start();
  const client = open();
  await eventually('the handshake waits', () => handshakes.length === 1);
  connections[0]?.suspend();
  expect(resting).toEqual([]);
  handshakes[0]?.();
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(String((await once(client, 'data'))[0])).toContain('served');
});

test('a client that is suspended during its handshake is read when its turn has come', async () => {
  const { open, handshakes, resting, connections } = await start();
  const client = open();
  await eventually('the handshake waits', () => handshakes.length === 1);
  handshakes[0]?.();
  connections[0]?.suspend();
  connections[0]?.suspend();
  expect(resting).toHaveLength(1);
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  let received = '';
  client.on('data', (bytes: Buffer) => (received += bytes.toString()));
  await turns();
  expect(received).toBe('');
  resting[0]?.();
  await eventually('the client is served', () => received.includes('served'));
});
