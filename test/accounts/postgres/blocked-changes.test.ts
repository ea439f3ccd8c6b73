import { expect, onTestFinished, test, vi } from 'vitest';
import { BlockedChanges } from '../../../src/accounts/postgres/blocked-changes.ts';
import { settle } from '../../support/turns.ts';

/** A change that continues until `finish` is called. */
function pending(): { readonly change: () => Promise<void>; finish: () => void } {
  const held = { change: () => new Promise<void>((resolve) => (held.finish = resolve)), finish: () => {} };
  return held;
}

test('changes that ran into a lock are retried one at a time for each account', async () => {
  const blocked = new BlockedChanges();
  const order: string[] = [];
  const first = pending();
  const changes = [
    blocked.run('acme', first.change),
    blocked.run('acme', async () => void order.push('acme')),
    blocked.run('globex', async () => void order.push('globex')),
  ];
  await settle();
  expect(order).toEqual(['globex']);
  first.finish();
  await Promise.all(changes);
  expect(order).toEqual(['globex', 'acme']);
});

test('a change that ran into a lock begins although the previous one has failed', async () => {
  const blocked = new BlockedChanges();
  const failed = blocked.run('acme', () => Promise.reject(new Error('a fault of a test')));
  const next = blocked.run('acme', async () => 'made');
  await expect(failed).rejects.toThrow('a fault of a test');
  expect(await next).toBe('made');
});

test.each([
  [4_999, true],
  [5_000, 'store_locked'],
])(
  'a change whose turn comes after %d milliseconds may be tried again for what is left of five seconds: %s',
  async (wait, outcome) => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000);
    onTestFinished(() => clock.mockRestore());
    const blocked = new BlockedChanges();
    const first = pending();
    void blocked.run('acme', first.change);
    const next = blocked
      .run('acme', async (hasTime) => {
        const before = hasTime();
        clock.mockReturnValue(6_000);
        return before && !hasTime();
      })
      .catch(({ code }: { code: unknown }) => code);
    await settle();
    clock.mockReturnValue(1_000 + wait);
    first.finish();
    expect(await next).toBe(outcome);
  },
);
