import { describe, expect, test } from 'vitest';
import { sliceLength } from '../../src/slices.ts';
import { LongBodies } from '../../src/proxy/body/read.ts';
import type { Budgets, Claim } from '../../src/proxy/capacity/budgets.ts';
import { Turns, type Crowd } from '../../src/proxy/capacity/queues.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import { settle } from '../support/turns.ts';

const long = Buffer.alloc(sliceLength + 1);

/** A request of this crowd, with only those parts that the work on its body needs. */
function requestOf(crowd: Crowd): Reservation {
  return new Reservation({} as Budgets, { tier: 'anonymous', crowd, turns: new Turns(), parts: [] });
}

/** Work that continues until `finish` is called. */
function pending(): { readonly work: () => Promise<void>; finish: () => void } {
  const held = { work: () => new Promise<void>((resolve) => (held.finish = resolve)), finish: () => {} };
  return held;
}

describe('bodies that take several slices', () => {
  test('without a secret key are processed one after another, with turns for live, test and no key', async () => {
    const bodies = new LongBodies();
    const order: string[] = [];
    const first = pending();
    void bodies.run(requestOf('anonymous'), long, first.work);
    for (const crowd of ['anonymous', 'testPublic', 'livePublic', 'livePublic', 'livePublic'] as const) {
      void bodies.run(requestOf(crowd), long, () => void order.push(crowd));
    }
    await settle();
    expect(order).toEqual([]);
    first.finish();
    await settle();
    expect(order).toEqual(['livePublic', 'testPublic', 'anonymous', 'livePublic', 'livePublic']);
  });

  test.each([
    ['live', 'test'],
    ['test', 'live'],
  ] as const)('with secret keys in %s wait for each other, and for nobody else', async (crowd, other) => {
    const bodies = new LongBodies();
    for (const each of [other, 'livePublic', 'testPublic', 'anonymous'] as const) {
      void bodies.run(requestOf(each), long, pending().work);
    }
    const order: string[] = [];
    const first = pending();
    void bodies.run(requestOf(crowd), long, () => (order.push('first'), first.work()));
    void bodies.run(requestOf(crowd), long, () => void order.push('second'));
    await settle();
    expect(order).toEqual(['first']);
    first.finish();
    await settle();
    expect(order).toEqual(['first', 'second']);
  });

  test('of one account, however many, take turns with those of another account', async () => {
    const bodies = new LongBodies();
    const order: string[] = [];
    const first = pending();
    const [noisy, quiet] = [requestOf('live').claim, requestOf('live').claim];
    const enter = (name: string, claim: Claim, work: () => void = () => {}): void => {
      void bodies.run(new Reservation({} as Budgets, claim), long, () => (order.push(name), work()));
    };
    enter('noisy', noisy, first.work);
    for (let i = 0; i < 3; i += 1) enter('noisy', noisy);
    for (let i = 0; i < 2; i += 1) enter('quiet', quiet);
    first.finish();
    await settle();
    expect(order).toEqual(['noisy', 'noisy', 'quiet', 'noisy', 'quiet', 'noisy']);
  });

  test('of up to 256 KiB do not wait for longer ones', async () => {
    const bodies = new LongBodies();
    const order: number[] = [];
    for (const length of [4 * sliceLength + 1, 4 * sliceLength, 4 * sliceLength + 1, 4 * sliceLength]) {
      void bodies.run(requestOf('live'), Buffer.alloc(length), () => (order.push(length), pending().work()));
    }
    await settle();
    expect(order).toEqual([4 * sliceLength + 1, 4 * sliceLength]);
  });

  test('are skipped if their request ends before their turn', async () => {
    const bodies = new LongBodies();
    const [ended, next] = [requestOf('live'), requestOf('live')];
    const first = pending();
    const order: string[] = [];
    void bodies.run(requestOf('live'), long, first.work);
    void bodies.run(ended, long, () => void order.push('ended'));
    const result = bodies.run(next, long, () => order.push('next'));
    ended.abandon();
    first.finish();
    expect(await result).toBe(1);
    expect(order).toEqual(['next']);
  });

  test('do not hold up others if the work on one fails', async () => {
    const bodies = new LongBodies();
    const failing = bodies.run(requestOf('live'), long, () => {
      throw new Error('a fault of a test');
    });
    await expect(failing).rejects.toThrow('a fault of a test');
    expect(await bodies.run(requestOf('live'), long, ({ length }) => length)).toBe(long.length);
  });
});

test('a short body is processed at once, whatever waits', () => {
  const bodies = new LongBodies();
  void bodies.run(requestOf('live'), long, pending().work);
  expect(bodies.run(requestOf('live'), long.subarray(1), ({ length }) => length)).toBe(sliceLength);
});
