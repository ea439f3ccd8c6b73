import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { mergeSmallWrites } from '../../src/upstream/merge-small-writes.ts';
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
async function start() {
  const [sender, client] = await openPair();
  const [to, core] = await openPair();
  let writes = 0;
  const write = to.write.bind(to);
  Object.assign(to, {
    write: (piece: Buffer) => {
      writes += 1;
      return write(piece);
    },
  });
  mergeSmallWrites(client, to);
  let received = '';
  core.on('data', (bytes: Buffer) => (received += bytes.toString('latin1')));
  return { sender, client, to, core, writes: () => writes, received: () => received };
}

const one = Buffer.from('x');

test('small pieces of one turn are one write; after a hundred of them the client is not read before the next turn', async () => {
  const { client, to, writes, received, sender } = await start();
  const stop = vi.spyOn((client as unknown as { _handle: { readStop(): void } })._handle, 'readStop');
  for (let i = 1; i < 100; i += 1) to.write(one);
  expect(stop).not.toHaveBeenCalled();
  to.write(one);
  expect(stop).toHaveBeenCalledOnce();
  sender.write('later');
  for (let i = 0; i < 10 && writes() === 0; i += 1) await nextTurn();
  expect(writes()).toBe(1);
  await eventually('it has arrived', () => received().length === 100);
  client.pipe(to);
  await eventually('the client is read again', () => received().endsWith('later'));
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
  client.pipe(to);
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
  expect(client.readableLength + to.writableLength).toBeLessThan(300_000);
  core.resume();
  await eventually('all has arrived', () => received().length === sent, { timeout: 20_000 });
});
