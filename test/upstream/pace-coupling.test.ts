import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { nextTurn as soon } from '../../src/http1/incoming.ts';
import { paceCoupling } from '../../src/upstream/pace-coupling.ts';
import { eventually } from '../support/eventually.ts';

/** Both ends of a connection. */
async function openPair(): Promise<readonly [Socket, Socket]> {
  const accepted = Promise.withResolvers<Socket>();
  const server = createServer(accepted.resolve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const far = await accepted.promise;
  onTestFinished(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return [near, far];
}

/** A client whose bytes go to a core, and how many writes its bytes have become. */
async function start(rest = (resume: () => void): void => void setImmediate(resume)) {
  const [sender, client] = await openPair();
  const [to, core] = await openPair();
  let writes = 0;
  const write = to.write.bind(to);
  Object.assign(to, {
    write: (piece: Buffer, onWritten: () => void) => {
      writes += 1;
      return write(piece, onWritten);
    },
  });
  client.pipe(to).pipe(client);
  paceCoupling(client, to, rest, soon);
  let received = '';
  core.on('data', (bytes: Buffer) => (received += bytes.toString('latin1')));
  return { sender, client, to, core, writes: () => writes, received: () => received };
}

const one = Buffer.from('x');

test('small pieces of one turn are one write; after a hundred of them the client is not read until its turn comes', async () => {
  const resting: (() => void)[] = [];
  const { to, writes, received, sender } = await start((resume) => void resting.push(resume));
  for (let i = 1; i < 100; i += 1) to.write(one);
  expect(resting).toHaveLength(0);
  to.write(one);
  expect(resting).toHaveLength(1);
  sender.write('later');
  for (let i = 0; i < 50; i += 1) await nextTurn();
  expect(writes()).toBe(1);
  await eventually('it has arrived', () => received().length === 100);
  resting[0]?.();
  await eventually('the client is read again', () => received().endsWith('later'));
});

test.each(['client', 'core'])('of a %s that sends much, at most 512 KiB are read in a turn', async (from) => {
  const { sender, client, to, core } = await start();
  const [source, read] = from === 'client' ? [sender, client] : [core, to];
  sender.resume();
  const sent = 32_000_000;
  source.write(Buffer.alloc(sent, 'z'));
  let most = 0;
  for (let before = 0; before < sent; before = read.bytesRead) {
    await nextTurn();
    most = Math.max(most, read.bytesRead - before);
  }
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(524_288);
});

test('a long piece behind a small one is written at once: how much the core has not taken is known in time', async () => {
  const { to, core } = await start();
  core.pause();
  for (let i = 0; i < 20; i += 1) for (const length of [1, 16_384]) to.write(Buffer.alloc(length));
  expect(to.writableLength).toBeGreaterThan(0);
});

test('a client that sends one byte in each turn is not read while 200 of them wait for the core', async () => {
  const { sender, client, to, received } = await start();
  to.cork();
  for (let i = 0; i < 200; i += 1) {
    to.write(one);
    await nextTurn();
  }
  sender.write('later');
  for (let i = 0; i < 50; i += 1) await nextTurn();
  expect(client.bytesRead).toBe(0);
  to.uncork();
  await eventually('it is read again', () => received().endsWith('later'));
});

test('the order of small and long pieces is kept, also at the end', async () => {
  const { to, core, received } = await start();
  const long = 'y'.repeat(64);
  for (const piece of ['a', long, 'b', 'c', long, long, 'd']) to.write(Buffer.from(piece));
  to.end();
  await once(core, 'end');
  expect(received()).toBe(`a${long}bc${long}${long}d`);
});

test('while the core does not read, little of the client is read, and all of it arrives later', async () => {
  const { sender, client, to, core, received } = await start();
  core.pause();
  const sent = 32_000_000;
  sender.write(Buffer.alloc(sent, 'z'));
  let before = -1;
  await eventually('nothing more is read', async () => {
    const { bytesRead } = client;
    if (bytesRead > 0 && bytesRead === before) return true;
    before = bytesRead;
    for (let i = 0; i < 200; i += 1) await nextTurn();
    return false;
  });
  expect(client.readableLength + to.writableLength).toBeLessThan(200_000);
  core.resume();
  await eventually('all has arrived', () => received().length === sent, { timeout: 20_000 });
});
