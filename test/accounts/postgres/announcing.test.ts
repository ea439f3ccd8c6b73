import { expect, onTestFinished, test, vi } from 'vitest';
import { Announcing } from '../../../src/accounts/postgres/transaction.ts';

test('after a change that could not be announced, no change is announced for ten seconds, and then announcements resume', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const announcing = new Announcing();
  expect(announcing.isOn).toBe(true);
  announcing.pause();
  vi.advanceTimersByTime(5_000);
  announcing.pause();
  vi.advanceTimersByTime(9_999);
  expect(announcing.isOn).toBe(false);
  vi.advanceTimersByTime(1);
  expect(announcing.isOn).toBe(true);
});
