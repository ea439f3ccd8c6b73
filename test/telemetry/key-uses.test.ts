import { expect, test } from 'vitest';
import { KeyUses } from '../../src/telemetry/key-uses.ts';

const hour = 3_600_000;
const minute = 60_000;
/** Any full hour. */
const begin = Date.UTC(2026, 10, 1, 12);

test('the requests with several keys are counted together, by hour over a day', () => {
  const uses = new KeyUses();
  uses.add('one', false, begin);
  uses.add('one', false, begin + hour);
  uses.add('two', false, begin + hour + 1);
  const { hours, lastAt } = uses.of(['one', 'two', 'unknown'], begin + hour + minute);
  expect(hours).toHaveLength(24);
  expect(hours.slice(-3)).toEqual([0, 1, 2]);
  expect(lastAt).toBe(begin + hour + 1);
  expect(uses.of(['one'], begin + 23 * hour).hours.slice(0, 2)).toEqual([1, 1]);
  expect(uses.of(['one'], begin + 24 * hour).hours.slice(0, 2)).toEqual([1, 0]);
});

test('the count of the last hour forgets uses that are older than an hour', () => {
  const uses = new KeyUses();
  uses.add('one', false, begin);
  uses.add('one', false, begin + 30 * minute);
  expect(uses.of(['one'], begin + 59 * minute).lastHour).toBe(2);
  expect(uses.of(['one'], begin + 60 * minute).lastHour).toBe(1);
  expect(uses.of(['one'], begin + 3 * hour)).toMatchObject({ lastHour: 0, lastAt: begin + 30 * minute });
});

test('attempts with a key that has ended do not count as uses', () => {
  const uses = new KeyUses();
  uses.add('one', true, begin);
  uses.add('one', true, begin + 5);
  expect(uses.of(['one'], begin + 6)).toEqual({
    hours: Array.from({ length: 24 }, () => 0),
    lastHour: 0,
    lastAt: undefined,
    attempts: 2,
    lastAttemptAt: begin + 5,
  });
});

test('with more than 20,000 keys, the one that was used least recently is dropped', () => {
  const uses = new KeyUses();
  for (let i = 0; i <= 20_000; i += 1) uses.add(`key-${i}`, false, begin);
  expect(uses.of(['key-0'], begin).lastAt).toBe(undefined);
  expect(uses.of(['key-1'], begin).lastAt).toBe(begin);
});
