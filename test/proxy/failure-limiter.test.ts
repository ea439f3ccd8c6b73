import { expect, test } from 'vitest';
import { FailureLimiter } from '../../src/proxy/capacity/attempts.ts';

const limit = 3;
const window = 60_000;

/** A limiter in which each subject has failed this many times, at time 0. */
function afterFailures(times: number, ...subjects: readonly string[]): FailureLimiter {
  const limiter = new FailureLimiter();
  for (const subject of subjects) for (let i = 0; i < times; i += 1) limiter.failed(subject, window, 0);
  return limiter;
}

test('a subject without a failure is not limited', () => {
  expect(new FailureLimiter().limited('a', limit, 0)).toBeUndefined();
});

test.each([
  [limit - 1, undefined],
  [limit, 60],
  [limit + 1, 60],
])('after %i failures of 3 allowed, the wait is %s seconds', (times, seconds) => {
  expect(afterFailures(times, 'a').limited('a', limit, 0)).toBe(seconds);
});

test('each subject is counted separately', () => {
  const limiter = afterFailures(limit, 'a');
  limiter.failed('b', window, 0);
  expect(limiter.limited('b', limit, 0)).toBeUndefined();
  expect(limiter.limited('a', limit, 0)).toBe(60);
});

test.each([
  [1, 60],
  [999, 60],
  [1_000, 59],
  [59_000, 1],
  [59_999, 1],
  [60_000, undefined],
])('%i ms after the first failure, the wait is %s seconds, rounded up', (now, seconds) => {
  expect(afterFailures(limit, 'a').limited('a', limit, now)).toBe(seconds);
});

test('failures within a window do not prolong it', () => {
  const limiter = afterFailures(limit, 'a');
  limiter.failed('a', window, 59_999);
  expect(limiter.limited('a', limit, 60_000)).toBeUndefined();
});

test('the first failure after a window opens a new one and counts as one', () => {
  const limiter = afterFailures(limit, 'a');
  limiter.failed('a', window, 60_000);
  expect(limiter.limited('a', 2, 60_000)).toBeUndefined();
  expect(limiter.limited('a', 1, 60_000)).toBe(60);
});

test('a lower limit applies at once', () => {
  const limiter = afterFailures(2, 'a');
  expect(limiter.limited('a', 3, 0)).toBeUndefined();
  expect(limiter.limited('a', 2, 0)).toBe(60);
});

test('10,000 subjects are remembered, and one more replaces the least recent', () => {
  const limiter = afterFailures(1, 'first', 'second');
  for (let i = 0; i < 9_998; i += 1) limiter.failed(`other ${i}`, window, 0);
  expect(limiter.limited('first', 1, 0)).toBe(60);
  limiter.failed('one too many', window, 0);
  expect(limiter.limited('second', 1, 0)).toBeUndefined();
  expect(limiter.limited('first', 1, 0)).toBe(60);
});
