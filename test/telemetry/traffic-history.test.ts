import { describe, expect, test } from 'vitest';
import { Durations } from '../../src/telemetry/durations.ts';
import { TrafficHistory } from '../../src/telemetry/traffic-history.ts';

const minute = 60_000;
/** Any time, half a minute after a full quarter of an hour. */
const begin = Date.UTC(2026, 10, 1, 12, 0, 30);
const fine = { environment: 'live', status: 200, duration_ms: 10 } as const;

describe('the requests of the last hour', () => {
  test('are counted by minute and outcome, with their durations and refusals', () => {
    const history = new TrafficHistory();
    history.add(fine, begin);
    history.add({ ...fine, status: 404, duration_ms: 40 }, begin);
    history.add({ ...fine, status: 503, duration_ms: 1_000 }, begin + 2 * minute);
    history.add({ ...fine, status: 503, code: 'overloaded', duration_ms: 1 }, begin + 2 * minute);
    history.add({ ...fine, status: 401, code: 'invalid_api_key' }, begin + 2 * minute);
    history.add({ ...fine, status: 401, code: 'invalid_api_key' }, begin + 2 * minute);
    history.add({ ...fine, status: 499 }, begin + 2 * minute);
    history.add({ ...fine, status: 444 }, begin + 2 * minute);
    const { slots, refusals } = history.of('1h', 'live', begin + 2 * minute);
    expect(slots.map(({ time }) => time)).toEqual(
      Array.from({ length: 60 }, (_, i) => begin - 30_000 + (i - 57) * minute),
    );
    expect(slots.slice(57)).toMatchObject([
      { served: 2, refused: 0, failed: 0, left: 0, p50: 11.3, p99: 45.3 },
      { served: 0, refused: 0, failed: 0, left: 0, p50: undefined, p99: undefined },
      { served: 0, refused: 3, failed: 1, left: 2, p50: 1_020, p99: 1_020 },
    ]);
    expect(refusals).toEqual([
      ['invalid_api_key', 2],
      ['overloaded', 1],
    ]);
  });

  test('are those of one environment, or of all, including unknown hosts', () => {
    const history = new TrafficHistory();
    history.add(fine, begin);
    history.add({ ...fine, environment: 'test' }, begin);
    history.add({ ...fine, environment: undefined, status: 421, code: 'unknown_host' }, begin);
    const counts = (environment: 'test' | 'live' | undefined) => {
      const { served, refused } = history.of('1h', environment, begin).slots.at(-1) ?? {};
      return [served, refused];
    };
    expect([counts('live'), counts('test'), counts(undefined)]).toEqual([
      [1, 0],
      [1, 0],
      [2, 1],
    ]);
  });

  test.each([
    ['1h', 59, 1],
    ['1h', 60, 0],
    ['24h', 24 * 60 - 1, 1],
    ['24h', 24 * 60, 0],
  ] as const)('%s: %d minutes later counts %d', (span, later, count) => {
    const history = new TrafficHistory();
    history.add(fine, begin);
    const { slots } = history.of(span, 'live', begin + later * minute);
    expect(slots.reduce((sum, { served }) => sum + served, 0)).toBe(count);
  });
});

test('the requests of a day are counted by quarters of an hour', () => {
  const history = new TrafficHistory();
  history.add(fine, begin);
  history.add(fine, begin + 15 * minute);
  const { slots } = history.of('24h', undefined, begin + 15 * minute);
  expect(slots).toHaveLength(96);
  expect(slots.slice(-2).map(({ time, served }) => [time, served])).toEqual([
    [begin - 30_000, 1],
    [begin - 30_000 + 15 * minute, 1],
  ]);
});

describe('a percentile of durations', () => {
  test.each([0.01, 0.25, 0.26, 1, 7, 84, 999, 60_000])('of %d ms is at most a fifth too high', (duration) => {
    const durations = new Durations();
    durations.add(duration);
    const found = durations.percentile(0.99) ?? 0;
    expect(found).toBeGreaterThanOrEqual(duration * 0.995);
    expect(found).toBeLessThanOrEqual(Math.max(0.25, duration * 1.2));
  });

  test('is the duration that its share of the requests does not exceed', () => {
    const durations = new Durations();
    for (let i = 0; i < 99; i += 1) durations.add(1);
    durations.add(100);
    expect([durations.percentile(0.5), durations.percentile(0.99)]).toEqual([1, 1]);
    durations.add(100);
    expect(durations.percentile(0.99)).toBeGreaterThan(90);
    durations.clear();
    expect(durations.percentile(0.5)).toBe(undefined);
  });
});
