import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { nextTurn as soon, type Queue } from '../../src/http1/incoming.ts';
import { smallPiece } from '../../src/http1/read-pace.ts';
import { paceCoupling } from '../../src/upstream/pace-coupling.ts';
import { eventually } from '../support/eventually.ts';
import { manualQueue } from '../support/manual-queue.ts';

/** Opens a connection and returns both ends. */
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

const directions = ['client', 'core'] as const;

/** Starts a coupling and returns one direction of it: what `sender` writes is read from `source` and written to `to` for `receiver`. */
async function start(from: (typeof directions)[number], queue: Queue = soon) {
  const [merchant, client] = await openPair();
  const [upstream, core] = await openPair();
  const [sender, source, to, receiver] =
    from === 'client' ? [merchant, client, upstream, core] : [core, upstream, client, merchant];
  let writes = 0;
  const write = to.write.bind(to);
  Object.assign(to, {
    write: (piece: Buffer, onWritten: () => void) => {
      writes += 1;
      return write(piece, onWritten);
    },
  });
  client.pipe(upstream).pipe(client);
  paceCoupling(client, upstream, (resume) => void queue.add(resume), queue);
  let received = '';
  receiver.on('data', (bytes: Buffer) => (received += bytes.toString('latin1')));
  // Wait until the pipes begin to read.
  await nextTurn();
  return { sender, source, to, receiver, writes: () => writes, received: () => received };
}

const one = Buffer.from('x');

test('a connection that the core closes while it waits for its turn no longer waits', async () => {
  const { queue, waiting } = manualQueue();
  const { to, source } = await start('core', queue);
  for (let i = 0; i < 100; i += 1) to.write(one);
  expect(waiting).toHaveLength(1);
  source.destroy();
  await eventually('the connection is withdrawn', () => waiting.length === 0);
});

describe.each(directions)('from the %s', (from) => {
  test('small pieces of one turn are combined into one write; after a hundred of them, nothing is read until the sender’s turn comes', async () => {
    const { queue, waiting: resting } = manualQueue();
    const { to, writes, received, sender } = await start(from, queue);
    for (let i = 1; i < 100; i += 1) to.write(one);
    expect(resting).toHaveLength(0);
    to.write(one);
    expect(resting).toHaveLength(1);
    sender.write('later');
    for (let i = 0; i < 50; i += 1) await nextTurn();
    expect(writes()).toBe(1);
    await eventually('the small pieces have arrived', () => received().length === 100);
    resting[0]?.();
    await eventually('the sender is read again', () => received().endsWith('later'));
  });

  test('of a lot of data, at most 512 KiB are read in a turn', async () => {
    const { sender, source } = await start(from);
    const sent = 32_000_000;
    sender.write(Buffer.alloc(sent, 'z'));
    let most = 0;
    for (let before = 0; before < sent; before = source.bytesRead) {
      await nextTurn();
      most = Math.max(most, source.bytesRead - before);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(524_288);
  });

  test('a long piece that follows a small one is written at once, so that it is known in time how much the receiver has not taken', async () => {
    const { to, receiver } = await start(from);
    receiver.pause();
    for (let i = 0; i < 400; i += 1) for (const length of [1, 16_384]) to.write(Buffer.alloc(length));
    expect(to.writableLength).toBeGreaterThan(0);
  });

  test('a sender of one byte per turn is not read while the receiver has not taken 200 of its bytes', async () => {
    const { sender, source, to, received } = await start(from);
    to.cork();
    for (let i = 0; i < 200; i += 1) {
      to.write(one);
      await nextTurn();
    }
    sender.write('later');
    for (let i = 0; i < 50; i += 1) await nextTurn();
    expect(source.bytesRead).toBe(0);
    to.uncork();
    await eventually('the sender is read again', () => received().endsWith('later'));
  });

  test('the order of small and long pieces is kept, also at the end', async () => {
    const { to, receiver, received } = await start(from);
    const long = 'y'.repeat(smallPiece);
    for (const piece of ['a', long, 'b', 'c', long, long, 'd']) to.write(Buffer.from(piece));
    to.end();
    await once(receiver, 'end');
    expect(received()).toBe(`a${long}bc${long}${long}d`);
  });

  test('while the receiver does not read, little is read, and all of it arrives later', async () => {
    const { sender, source, to, receiver, received } = await start(from);
    receiver.pause();
    const sent = 32_000_000;
    sender.write(Buffer.alloc(sent, 'z'));
    let before = -1;
    await eventually('nothing more is read', async () => {
      const { bytesRead } = source;
      if (bytesRead > 0 && bytesRead === before) return true;
      before = bytesRead;
      for (let i = 0; i < 200; i += 1) await nextTurn();
      return false;
    });
    expect(source.readableLength + to.writableLength).toBeLessThan(200_000);
    receiver.resume();
    await eventually('all has arrived', () => received().length === sent, { timeout: 20_000 });
  });
});
