import { EventEmitter, once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
import { expect, onTestFinished, test, vi } from 'vitest';
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
async function start(checks: (socket: Socket) => void = () => {}) {
  const secured = new EventEmitter().prependListener('secureConnection', checks);
  const turns = new CertificateTurns(secured);
  const accepted: Socket[] = [];
  const server = createServer((socket) => void accepted.push(socket.resume().on('error', () => {})));
  const port = await listen(server);
  const begun: string[] = [];
  /**
   * @param from  the address that the client seems to have
   * @param hello how many bytes arrive before the client waits
   * @param begins whether its handshake begins when it is its turn, or not at all
   */
  const open = async (name: string, from: string, hello = 0, begins = true): Promise<Client> => {
    const count = accepted.length;
    const client = connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void client.destroy());
    await eventually('the client is accepted', () => accepted.length > count);
    const socket = accepted[count] as Socket;
    Object.defineProperty(socket, 'remoteAddress', { value: from });
    client.write(Buffer.alloc(hello));
    await eventually('the bytes arrive', () => socket.bytesRead === hello);
    turns.add(socket, (hasBegun) => {
      begun.push(name);
      if (begins) hasBegun();
    });
    return { client, socket };
  };
  const secure = ({ socket }: Client): void => void secured.emit('secureConnection', socket);
  const trust = async (address: string): Promise<void> => {
    secure(await open('trusted', address));
    begun.length = 0;
  };
  return { open, begun, secure, trust };
}

/** Sends this many bytes of a handshake, and leaves before the handshake is complete. */
async function fail({ client, socket }: Client, bytes: number): Promise<void> {
  const before = socket.bytesRead;
  client.write(Buffer.alloc(bytes));
  await eventually('the bytes arrive', () => socket.bytesRead === before + bytes);
  await once(socket.destroy(), 'close');
}

test('one stranger is in a handshake at a time, and the newest of the others is next', async () => {
  const { open, begun, secure } = await start();
  const first = await open('first', '192.0.2.1');
  await open('second', '198.51.100.1');
  const third = await open('third', '203.0.113.1');
  expect(begun).toEqual(['first']);
  secure(first);
  expect(begun).toEqual(['first', 'third']);
  secure(first);
  expect(begun).toHaveLength(2);
  secure(third);
  expect(begun).toEqual(['first', 'third', 'second']);
});

test('a client of a trusted address waits only for others of that address', async () => {
  const { open, begun, secure, trust } = await start();
  await trust('192.0.2.1');
  await open('stranger', '192.0.2.2');
  const first = await open('first', '192.0.2.1');
  await open('second', '192.0.2.1');
  expect(begun).toEqual(['stranger', 'first']);
  secure(first);
  expect(begun).toEqual(['stranger', 'first', 'second']);
});

test('clients that wait as strangers do not wait for strangers any more once one of their address is trusted', async () => {
  const { open, begun, secure } = await start();
  const first = await open('first', '192.0.2.1');
  await open('second', '192.0.2.1');
  await open('stranger', '203.0.113.1');
  secure(first);
  expect(begun.toSorted()).toEqual(['first', 'second', 'stranger']);
});

test.each([
  ['a new site', 500, '203.0.113.1'],
  ['the same site', 3_000, '192.0.2.7'],
])(
  'after a failed handshake, a stranger of %s waits %i ms for each KiB that the client has sent after its first message',
  async (_, rest, address) => {
    const { open, begun } = await start();
    const failing = await open('failing', '192.0.2.1', 10_000);
    await open('waiting', address);
    const failedAt = performance.now();
    await fail(failing, 256);
    await settle();
    expect(begun).toEqual(['failing']);
    await eventually('the rest is over', () => begun.length === 2);
    const waited = performance.now() - failedAt;
    expect(waited).toBeGreaterThan(rest / 4 - 1);
    expect(waited).toBeLessThan(rest / 4 + 500);
  },
);

test('a stranger of a site without a failed handshake goes before strangers of other sites', async () => {
  const { open, begun } = await start();
  await fail(await open('failing', '192.0.2.1'), 128);
  await open('again', '192.0.2.1');
  await open('new', '203.0.113.1');
  await open('again too', '192.0.2.2');
  await eventually('a handshake begins', () => begun.length === 2);
  expect(begun).toEqual(['failing', 'new']);
});

test('a small failed handshake does not end the rest after a large one', async () => {
  const { open, begun } = await start();
  await fail(await open('large', '192.0.2.1'), 1_024);
  const small = await open('small', '203.0.113.1');
  await eventually('the small one begins', () => begun.length === 2);
  await fail(small, 1);
  await open('again', '192.0.2.1');
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(begun).toEqual(['large', 'small']);
});

test('while strangers rest, those that wait are not looked through for each new one', async () => {
  const { open, begun } = await start();
  await fail(await open('failing', '192.0.2.1'), 65_536);
  const lookUps = vi.spyOn(LRUCache.prototype, 'has');
  onTestFinished(() => lookUps.mockRestore());
  for (let i = 0; i < 20; i += 1) await open('again', '192.0.2.1');
  expect(lookUps.mock.calls.length).toBeLessThanOrEqual(20);
  expect(begun).toEqual(['failing']);
});

test('an address from which a handshake fails is not trusted any more, and its clients wait like strangers', async () => {
  const { open, begun, trust } = await start();
  await trust('192.0.2.1');
  const failing = await open('failing', '192.0.2.1', 10_000);
  await open('waiting', '192.0.2.1');
  await fail(failing, 65_536);
  await open('later', '192.0.2.1');
  await settle();
  expect(begun).toEqual(['failing']);
});

test('a client that leaves in its turn, but before its handshake begins, makes nobody wait, and its address stays trusted', async () => {
  const { open, begun, trust } = await start();
  await trust('192.0.2.1');
  await fail(await open('evicted', '192.0.2.1', 0, false), 65_536);
  await open('first', '192.0.2.1');
  await fail(await open('stranger', '192.0.2.2', 0, false), 65_536);
  await open('next stranger', '192.0.2.3');
  expect(begun).toEqual(['evicted', 'first', 'stranger', 'next stranger']);
});

test('of thousands of addresses that were trusted, none is kept after its last handshake', async () => {
  const set = vi.spyOn(Map.prototype, 'set');
  onTestFinished(() => set.mockRestore());
  const { open, secure, trust } = await start();
  for (const address of ['192.0.2.1', '192.0.2.2']) {
    await trust(address);
    secure(await open('first', address));
  }
  const lanes = set.mock.contexts.filter((_, i) => 'isBusy' in Object(set.mock.calls[i]?.[1])) as Map<
    string,
    unknown
  >[];
  expect(lanes).toHaveLength(2);
  expect(lanes.map((each) => each.size)).toEqual([0, 0]);
});

test('a client that is closed after its handshake, because its certificate has expired, is not trusted', async () => {
  const { open, begun, secure } = await start((socket) => void socket.destroy());
  const expired = await open('expired', '192.0.2.1');
  const closed = once(expired.socket, 'close');
  secure(expired);
  await closed;
  await open('stranger', '203.0.113.1');
  await open('again', '192.0.2.1');
  expect(begun).toEqual(['expired', 'stranger']);
});

test('what a client sends after its handshake makes nobody wait', async () => {
  const { open, begun, secure } = await start();
  const client = await open('client', '192.0.2.1');
  secure(client);
  await fail(client, 65_536);
  await open('next', '203.0.113.1');
  expect(begun).toEqual(['client', 'next']);
});

test('a client that leaves while it waits begins no handshake', async () => {
  const { open, begun, secure } = await start();
  const first = await open('first', '192.0.2.1');
  await fail(await open('leaving', '192.0.2.1'), 65_536);
  secure(first);
  expect(begun).toEqual(['first']);
  await open('next', '192.0.2.1');
  expect(begun).toEqual(['first', 'next']);
});

test.each([
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:ffff::1', true],
  ['2001:db8:1:2::1', '2001:db8:1:3::1', false],
  ['fd00::1', 'fd00::2', true],
  ['fd00::5:6:7:8', 'fd00::1:6:7:8', true],
  ['::ffff:192.0.2.1', '192.0.2.1', true],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2', false],
])('if %s is trusted, so is %s: %s', async (one, other, isSame) => {
  const { open, begun, trust } = await start();
  await trust(one);
  await open('stranger', '203.0.113.1');
  await open('other', other);
  expect(begun).toHaveLength(isSame ? 2 : 1);
});

test.each([
  ['2001:db8:1:2::1', '2001:db8:1:ffff::1', true],
  ['2001:db8:1:2::1', '2001:db8:2:2::1', false],
  ['192.0.2.1', '::ffff:192.0.2.9', true],
  ['192.0.2.1', '192.0.3.1', false],
])('%s and %s belong to the same site: %s', async (one, other, isSame) => {
  const { open, begun } = await start();
  await fail(await open('failing', one), 128);
  await open('new', '203.0.113.1');
  await open('other', other);
  await eventually('a handshake begins', () => begun.length === 2);
  expect(begun).toEqual(['failing', isSame ? 'new' : 'other']);
});
