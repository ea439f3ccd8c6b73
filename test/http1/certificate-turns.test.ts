import { EventEmitter, once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { CertificateTurns } from '../../src/http1/certificate-turns.ts';
import { eventually } from '../support/eventually.ts';
import { listen } from '../support/listen.ts';
import { settle } from '../support/turns.ts';

interface Client {
  readonly client: Socket;
  /** The accepted socket. */
  readonly socket: Socket;
}

/** Accepts clients, whose handshakes begin in turns. `begun` lists the clients whose handshakes have begun. `secure` completes one. */
async function start() {
  const secured = new EventEmitter();
  const turns = new CertificateTurns(secured);
  const accepted: Socket[] = [];
  const server = createServer((socket) => void accepted.push(socket.resume().on('error', () => {})));
  const port = await listen(server);
  const begun: string[] = [];
  /** @param from the address that the client seems to have */
  const open = async (name: string, from = '192.0.2.1'): Promise<Client> => {
    const count = accepted.length;
    const client = connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void client.destroy());
    await eventually('the client is accepted', () => accepted.length > count);
    const socket = accepted[count] as Socket;
    Object.defineProperty(socket, 'remoteAddress', { value: from });
    turns.add(socket, () => void begun.push(name));
    return { client, socket };
  };
  return { open, begun, secure: ({ socket }: Client) => secured.emit('secureConnection', socket) };
}

/** Sends this many bytes of a handshake, and leaves before the handshake is complete. */
async function fail({ client, socket }: Client, bytes: number): Promise<void> {
  client.write(Buffer.alloc(bytes));
  await eventually('the bytes arrive', () => socket.bytesRead === bytes);
  await once(socket.destroy(), 'close');
}

test('one client of a network is in a handshake at a time, and the newest of the others is next', async () => {
  const { open, begun, secure } = await start();
  const first = await open('first');
  await open('second');
  const third = await open('third');
  expect(begun).toEqual(['first']);
  secure(first);
  expect(begun).toEqual(['first', 'third']);
  secure(first);
  expect(begun).toHaveLength(2);
  secure(third);
  expect(begun).toEqual(['first', 'third', 'second']);
});

test('after a failed handshake, no other begins in its network for 250 ms for each KiB that the client has sent', async () => {
  const { open, begun } = await start();
  const failing = await open('failing');
  await open('waiting');
  const failedAt = performance.now();
  await fail(failing, 2_048);
  await settle();
  expect(begun).toEqual(['failing']);
  await eventually('the rest is over', () => begun.length === 2);
  expect(performance.now() - failedAt).toBeGreaterThan(499);
});

test('a client of another network does not wait', async () => {
  const { open, begun } = await start();
  await fail(await open('failing'), 65_536);
  await open('waiting');
  await open('another', '192.0.2.2');
  expect(begun).toEqual(['failing', 'another']);
});

test('a completed handshake lets the next begin at once, whatever the client sends later', async () => {
  const { open, begun, secure } = await start();
  const client = await open('client');
  secure(client);
  await fail(client, 65_536);
  await open('next');
  expect(begun).toEqual(['client', 'next']);
});

test('a client that leaves while it waits begins no handshake', async () => {
  const { open, begun, secure } = await start();
  const first = await open('first');
  await fail(await open('leaving'), 65_536);
  secure(first);
  expect(begun).toEqual(['first']);
  await open('next');
  expect(begun).toEqual(['first', 'next']);
});

test.each([
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:ffff::1', true],
  ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
  ['fd00::1', 'fd00::2', true],
  ['fd00::5:6:7:8', 'fd00::1:6:7:8', true],
  ['::ffff:192.0.2.1', '192.0.2.1', true],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2', false],
])('%s and %s belong to the same network: %s', async (one, other, isSame) => {
  const { open, begun } = await start();
  await open('first', one);
  await open('second', other);
  expect(begun).toHaveLength(isSame ? 1 : 2);
});
