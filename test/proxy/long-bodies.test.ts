import { describe, expect, test } from 'vitest';
import { sliceLength } from '../../src/envelope/slices.ts';
import { LongBodies } from '../../src/proxy/body/read.ts';
import type { Budgets } from '../../src/proxy/capacity/budgets.ts';
import { Reservation } from '../../src/proxy/capacity/reservation.ts';
import type { Responder } from '../../src/proxy/respond/responder.ts';
import { settle } from '../support/turns.ts';

const long = Buffer.alloc(sliceLength + 1);

/** A request in progress in this environment, as far as its body needs it. */
function requestIn(name: 'test' | 'live') {
  const exchange = { environment: { name } } as Responder['exchange'];
  return {
    exchange,
    reservation: new Reservation({} as Budgets, { tier: 'anonymous', crowd: 'anonymous', parts: [] }),
  };
}

/** Work that goes on until `finish` is called. */
function pending(): { readonly work: () => Promise<void>; finish: () => void } {
  const held = { work: () => new Promise<void>((resolve) => (held.finish = resolve)), finish: () => {} };
  return held;
}

describe('bodies that take several slices', () => {
  test('are worked on one after another, those of live first', async () => {
    const bodies = new LongBodies();
    const order: string[] = [];
    const first = pending();
    void bodies.run(requestIn('test'), long, first.work);
    for (const [name, environment] of [
      ['test 1', 'test'],
      ['live 1', 'live'],
      ['test 2', 'test'],
      ['live 2', 'live'],
    ] as const) {
      void bodies.run(requestIn(environment), long, () => void order.push(name));
    }
    await settle();
    expect(order).toEqual([]);
    first.finish();
    await settle();
    expect(order).toEqual(['live 1', 'live 2', 'test 1', 'test 2']);
  });

  test('are left out if their request ends before their turn', async () => {
    const bodies = new LongBodies();
    const [ended, next] = [requestIn('live'), requestIn('live')];
    const first = pending();
    const order: string[] = [];
    void bodies.run(requestIn('live'), long, first.work);
    void bodies.run(ended, long, () => void order.push('ended'));
    const result = bodies.run(next, long, () => order.push('next'));
    ended.reservation.abandon();
    first.finish();
    expect(await result).toBe(1);
    expect(order).toEqual(['next']);
  });

  test('do not hold up others if the work on one fails', async () => {
    const bodies = new LongBodies();
    const failing = bodies.run(requestIn('live'), long, () => {
      throw new Error('a fault of a test');
    });
    await expect(failing).rejects.toThrow('a fault of a test');
    expect(await bodies.run(requestIn('live'), long, ({ length }) => length)).toBe(long.length);
  });
});

test('a short body is worked on at once, whatever waits', () => {
  const bodies = new LongBodies();
  void bodies.run(requestIn('live'), long, pending().work);
  expect(bodies.run(requestIn('live'), long.subarray(1), ({ length }) => length)).toBe(sliceLength);
});
