import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { QueuesOfAll, Turns, type HeldUp } from '../../src/proxy/capacity/queues.ts';
import { ReadTurn } from '../../src/proxy/capacity/read-turn.ts';
import { eventually } from '../support/eventually.ts';

/** Creates clients that take turns. `readNow` returns those that are read in the next turn of the event loop. */
function start(count: number, turns = new Turns()) {
  const read: number[] = [];
  const connect = (number: number) => {
    const turn = new ReadTurn();
    let waits = false;
    const resume = (): void => {
      waits = false;
      read.push(number);
    };
    return {
      turn,
      holdUp: (broken: HeldUp | undefined): void => {
        if (waits || turn.protects(broken)) return;
        waits = true;
        turn.await(turns, 'heldUp', resume);
      },
      /** Reports that the client has sent many small pieces. */
      offend(): void {
        waits = true;
        turn.await(turns, 'smallPieces', resume);
        turns.holdUpOthers(this);
      },
      /** Reports that a request's head has taken this many milliseconds. */
      work(took: number): void {
        const clock = vi.spyOn(performance, 'now').mockReturnValueOnce(0).mockReturnValueOnce(took);
        turns.time(this, () => {});
        clock.mockRestore();
      },
      leave: () => turn.withdraw(),
    };
  };
  const clients = Array.from({ length: count }, (_, number) => connect(number));
  for (const client of clients) {
    client.turn.endNew();
    turns.readers.add(client);
  }
  let joined = count;
  const join = (): number => {
    turns.readers.add(connect(joined));
    return joined++;
  };
  const at = (index: number) => {
    const client = clients[index];
    if (client === undefined) throw new Error('no such client');
    return client;
  };
  /** The clients that are read in the next turn of the event loop, in ascending order. */
  const readNow = async (): Promise<number[]> => {
    await nextTurn();
    return read.splice(0).toSorted((a, b) => a - b);
  };
  return { at, join, readNow };
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

test('64 of the clients that are held up are read in a turn, in addition to one that has sent many small pieces', async () => {
  const { at, readNow } = start(130);
  at(0).offend();
  expect(await readNow()).toEqual(range(0, 65));
  expect(await readNow()).toEqual(range(65, 129));
  expect(await readNow()).toEqual([129]);
});

test('if a client that was held up has sent many small pieces, too, the rest of its batch goes first in the next turn', async () => {
  const { at, readNow } = start(200);
  at(0).offend();
  expect(await readNow()).toEqual(range(0, 65));
  at(10).offend();
  // Client 10 is read in its own turn, and one of the next batch takes its place.
  expect(await readNow()).toEqual(range(1, 66));
});

test('a client that has sent many small pieces again in its own turn does not hold back the batch', async () => {
  const { at, readNow } = start(200);
  at(0).offend();
  expect(await readNow()).toEqual(range(0, 65));
  at(0).offend();
  expect(await readNow()).toEqual([0, ...range(65, 129)]);
});

test('a client that has ever sent many small pieces is in no batch: each such client has a turn of its own', async () => {
  const { at, readNow } = start(4);
  at(0).offend();
  expect(await readNow()).toEqual([0, 1, 2, 3]);
  await readNow();
  at(1).offend();
  expect(await readNow()).toEqual([1, 2, 3]);
  expect(await readNow()).toEqual([0]);
});

test('a new connection, before its first request, does not wait with the others', async () => {
  const { at, join, readNow } = start(200);
  at(0).offend();
  expect(await readNow()).toEqual(range(0, 65));
  join();
  at(0).offend();
  expect(await readNow()).toEqual([0, ...range(65, 129), 200]);
});

test('clients that break their batch do not make a new connection wait again', async () => {
  const { at, join, readNow } = start(200);
  const joined = join();
  at(0).offend();
  expect(await readNow()).toEqual([...range(0, 65), joined]);
  at(10).offend();
  // The new connection was read before, and is not held up again.
  expect(await readNow()).toEqual(range(1, 66));
});

test('a stream of new connections keeps no other connection from being read', async () => {
  const { at, join, readNow } = start(1);
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  const prepared = join();
  clock.mockReturnValue(performance.now() + 1_000);
  const first = join();
  const reads: number[] = [];
  for (let turn = 0; turn < 10; turn += 1) {
    for (let i = 0; i < 100; i += 1) join();
    at(0).offend();
    reads.push(...(await readNow()));
  }
  expect(reads.filter((number) => number === prepared).length).toBeGreaterThan(3);
  expect(range(first, first + 200).filter((number) => !reads.includes(number))).toEqual([]);
});

test('if it takes four clients to break a batch, the batch continues after three', async () => {
  const { at, readNow } = start(200, new Turns(true));
  at(0).offend();
  expect(await readNow()).toEqual(range(0, 65));
  for (const number of [10, 11, 12]) at(number).offend();
  // The batch is not held up again, so the next one is read. The turn of client 10 comes after a pause.
  expect((await readNow()).filter((number) => number !== 10)).toEqual(range(65, 129));
});

test.each([
  ['clients without a key', true],
  ['merchants', false],
])('small pieces of %s that took long make the next ones wait: %s', async (_whose, areAnonymous) => {
  const turns = new Turns(areAnonymous);
  const duration = 50;
  const reads: number[] = [];
  for (let i = 0; i < 2; i += 1) {
    new ReadTurn().await(turns, 'smallPieces', () => {
      const now = performance.now();
      reads.push(now);
      while (performance.now() < now + duration);
    });
  }
  await eventually('both were read', () => reads.length === 2);
  const [first = 0, second = 0] = reads;
  expect(second - first >= 4 * duration).toBe(areAnonymous);
});

test('a client that sends many small pieces for the first time goes before those that have done so before', async () => {
  const turns = new Turns();
  const read: string[] = [];
  const [again, first] = [new ReadTurn(), new ReadTurn()];
  again.await(turns, 'smallPieces', () => read.push('before'));
  await nextTurn();
  for (let i = 0; i < 3; i += 1) again.await(turns, 'smallPieces', () => read.push('again'));
  first.await(turns, 'smallPieces', () => read.push('first'));
  await nextTurn();
  expect(read).toEqual(['before', 'first']);
});

test('all clients are read, however many send small pieces', async () => {
  const { at, readNow } = start(300);
  at(0).offend();
  const seen = new Set<number>();
  for (let turn = 0; turn < 100 && seen.size < 300; turn += 1) {
    const read = await readNow();
    for (const number of read) seen.add(number);
    const offender = read.find((number) => number < 50);
    if (offender !== undefined) at(offender).offend();
  }
  expect(seen.size).toBe(300);
});

test('a client that leaves is not read', async () => {
  const { at, readNow } = start(3);
  at(0).offend();
  at(1).leave();
  expect(await readNow()).toEqual([0, 2]);
});

test('heads that take 8 milliseconds in a turn make the other clients wait', async () => {
  const { at, readNow } = start(130);
  at(0).work(7.9);
  // Nobody waits, so nobody is read again.
  expect(await readNow()).toEqual([]);
  at(0).work(7);
  at(1).work(1);
  at(2).work(100);
  expect(await readNow()).toEqual([0, ...range(2, 65)]);
  expect(await readNow()).toEqual(range(65, 129));
});

test('the heads of all accounts with public keys count together', async () => {
  const all = new QueuesOfAll();
  const [first, second] = [start(3, new Turns(false, all)), start(3, new Turns(false, all))];
  first.at(0).work(7.9);
  second.at(0).work(0.1);
  expect(await first.readNow()).toEqual([]);
  expect(await second.readNow()).toEqual([1, 2]);
});
