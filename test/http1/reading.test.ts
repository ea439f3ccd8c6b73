import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { readAsStream, readInto } from '../../src/http1/reading.ts';
import { eventually } from '../support/eventually.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { startServer } from '../support/http1.ts';
import { settle } from '../support/turns.ts';

/** Connects a client. Returns its socket, and the socket of the server. */
async function startPair(): Promise<{ readonly client: Socket; readonly socket: Socket }> {
  const server = createServer().listen(0, '127.0.0.1');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [socket] = await accepted;
  onTestFinished(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  return { client, socket };
}

test('two sockets read into the same memory, one after the other', async () => {
  const [one, other] = [await startPair(), await startPair()];
  const memory = Buffer.alloc(1_024);
  const read: string[] = [];
  const receive = (length: number, from: Buffer): boolean => {
    expect(from).toBe(memory);
    read.push(from.toString('latin1', 0, length));
    from.fill(0xdb);
    return true;
  };
  for (const { socket } of [one, other]) expect(readInto(socket, memory, receive)).toBe(true);
  one.client.write('one');
  await eventually('the bytes are read', () => read.length === 1);
  other.client.write('other');
  await eventually('the bytes are read', () => read.length === 2);
  expect(read).toEqual(['one', 'other']);
});

test('a socket that is read as a stream again copies all bytes that it reads, and holds its client up', async () => {
  const { client, socket } = await startPair();
  const memory = Buffer.alloc(1_024);
  const first: string[] = [];
  readInto(socket, memory, (length, from) => {
    first.push(from.toString('latin1', 0, length));
    return true;
  });
  client.write('first');
  await eventually('the bytes are read', () => first.length === 1);
  socket.pause();
  readAsStream(socket);
  const sent = Buffer.alloc(8 * 1_048_576, '0123456789');
  client.end(sent);
  await settle();
  expect(socket.readableLength).toBeLessThan(socket.readableHighWaterMark + memory.length);
  expect(client.writableLength).toBeGreaterThan(0);
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece)).resume();
  await once(socket, 'end');
  expect(Buffer.concat(pieces).equals(sent)).toBe(true);
  expect(first).toEqual(['first']);
});

test('a socket that was never read into memory stays as it is', async () => {
  const { client, socket } = await startPair();
  readAsStream(socket);
  client.write('x');
  expect(String(await once(socket, 'data'))).toBe('x');
});

test('a Node version that cannot read into given memory serves requests nevertheless', async () => {
  const server = await startServer();
  const able: boolean[] = [];
  server.listener.server.prependListener('connection', (socket: Socket & { readonly _handle?: object }) => {
    if (socket._handle !== undefined) Object.assign(socket._handle, { useUserBuffer: undefined });
    able.push(readInto(socket, Buffer.alloc(1), () => true));
  });
  const client = await openConnection(server.port);
  const response = await client.send('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc').untilText('abc');
  expect(parseOnly(response).status).toBe(200);
  expect(able).toEqual([false]);
});
