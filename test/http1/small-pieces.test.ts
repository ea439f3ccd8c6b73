import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { Incoming } from '../../src/http1/incoming.ts';
import { maxPerTurn } from '../../src/http1/read-pace.ts';
import { startReading, stopReading } from '../../src/http1/reading.ts';
import { Listener } from '../../src/http1/listener.ts';
import type { ServerConnection } from '../../src/http1/connection.ts';
import { createAuthority } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';

const limits = { maxHeadSize: 16_384, maxFields: 100 };
const times = { headTimeout: 60_000, idleTimeout: 60_000, lingerTimeout: 60_000 };

/** Connects a TLS client that sends these pieces, each in its own record, after a request that gets no response. */
async function readOf(pieces: readonly string[]): Promise<{ readonly held: number; readonly socket: Socket }> {
  const { cert, key } = createAuthority().issue('DNS:localhost');
  let held = 0;
  const connections: ServerConnection[] = [];
  const { server } = new Listener(
    { limits: { ...limits, ...times }, tls: { cert, key }, clock: Date.now },
    (connection) => {
      connections.push(connection);
      return {
        onRequest: () => {},
        onExcess: () => expect.fail('too much'),
        onError: (error) => expect.fail(String(error)),
        onClose: () => {},
        onSuspend: (resume) => void setImmediate(resume),
        onHeld: (change) => {
          held += change;
          return true;
        },
      };
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {});
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  await once(client, 'secureConnect');
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  for (const piece of pieces) {
    if (client.writableLength > 100_000) break;
    // Pieces that are written together would share a record, so wait for each one.
    await Promise.race([new Promise((resolve) => void client.write(piece, resolve)), turn()]);
  }
  const [connection] = connections;
  if (connection === undefined) throw new Error('not accepted');
  return { held, socket: connection.socket };
}

test('if a client is not read, none of its records waits in the socket', async () => {
  const { held, socket } = await readOf(Array.from({ length: 40_000 }, () => 'G'));
  expect(socket.readableLength).toBe(0);
  expect(held).toBeGreaterThanOrEqual(16_384);
  // At most 16 KiB and one read of the socket are held.
  expect(held).toBeLessThanOrEqual(16_384 + 65_536);
});

/** Connects a client over TCP to an `Incoming`. `waiting` lists the suspended readers, which wait for their turn. */
async function openIncoming(): Promise<{
  readonly client: Socket;
  readonly socket: Socket;
  readonly incoming: Incoming;
  readonly waiting: readonly (() => void)[];
  /** The lengths of the pieces of bodies. */
  readonly pieces: readonly number[];
}> {
  const accepted = Promise.withResolvers<Socket>();
  const server = createServer(accepted.resolve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  const socket = await accepted.promise;
  const waiting: (() => void)[] = [];
  const pieces: number[] = [];
  const incoming = new Incoming({
    socket,
    limits,
    onSuspend: (resume) => void waiting.push(resume),
    onHeadBegins: () => {},
    onHead: () => {},
    onFault: (fault) => expect.fail(fault),
    onBody: ({ length }) => void pieces.push(length),
    onBodyEnd: () => {},
    onHeld: () => true,
    destroy: () => expect.fail('it is destroyed'),
    fail: (error) => expect.fail(String(error)),
  });
  socket.on('data', (bytes: Buffer) => incoming.receive(bytes));
  return { client, socket, incoming, waiting, pieces };
}

test('if a client sends many small pieces, no more are read until its turn comes', async () => {
  const { client, socket, incoming, waiting } = await openIncoming();
  const small = Buffer.alloc(1, 'x');
  // This piece also counts as small, and so does the next one that the client writes.
  incoming.receive(Buffer.from('GET / HTTP/1.1\r\nX: '));
  for (let i = 0; i < 97; i += 1) incoming.receive(small);
  client.write('y'.repeat(100));
  await eventually('the bytes are read', () => socket.bytesRead === 100);
  expect(waiting).toHaveLength(0);
  incoming.receive(small);
  expect(waiting).toHaveLength(1);
  client.write('y'.repeat(100));
  for (let i = 0; i < 20; i += 1) await turn();
  expect(socket.bytesRead).toBe(100);
  waiting[0]?.();
  await eventually('the client is read again', () => socket.bytesRead === 200);
});

test.each([
  [1_023, 1],
  [1_024, 0],
])('a body in pieces of %i bytes: what arrives during a suspension becomes one piece', async (length, rests) => {
  const { incoming, waiting, pieces } = await openIncoming();
  incoming.receive(Buffer.from('POST / HTTP/1.1\r\nContent-Length: 999999\r\n\r\n'));
  incoming.readBody();
  for (let i = 0; i < 130; i += 1) incoming.receive(Buffer.alloc(length));
  expect(waiting).toHaveLength(rests);
  const now = rests === 1 ? 99 : 130;
  expect(pieces).toEqual(Array.from({ length: now }, () => length));
  for (let i = 0; i < 20; i += 1) await turn();
  expect(pieces).toHaveLength(now);
  waiting[0]?.();
  for (let i = 0; i < 20; i += 1) await turn();
  expect(pieces.slice(now)).toEqual(rests === 1 ? [31 * 1_023] : []);
});

test.each([
  [8, 0],
  [9, 1],
])('a client whose hundred requests come in %i small pieces each is suspended %i times', async (count, rests) => {
  const { incoming, waiting } = await openIncoming();
  const head = Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  for (let requests = 0; requests < 100; requests += 1) {
    for (let i = 1; i < count; i += 1) incoming.receive(head.subarray(i - 1, i));
    incoming.receive(head.subarray(count - 1));
    incoming.expectHead();
  }
  expect(waiting).toHaveLength(rests);
});

test.each(['rests', 'leaves the rest of a turn to others'])(
  'a socket that is handed over while its client %s is read as its new owner says',
  async (what) => {
    const { client, socket, incoming, waiting } = await openIncoming();
    incoming.receive(Buffer.from('GET / HTTP/1.1\r\n\r\n'));
    if (what === 'rests') incoming.suspend();
    else incoming.receive(Buffer.alloc(maxPerTurn));
    incoming.take();
    socket.removeAllListeners('data').pause();
    stopReading(socket);
    waiting[0]?.();
    client.write('unread');
    for (let i = 0; i < 20; i += 1) await turn();
    expect(socket.bytesRead).toBe(0);
    startReading(socket);
    await eventually('the bytes are read', () => socket.bytesRead === 6);
  },
);
