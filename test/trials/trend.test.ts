import { describe, expect, test } from 'vitest';
import { trendOf, type Trend } from '../../trials/soak/trend.ts';

/** A series with one point per second: one before the load, 100 during it, and one after it. */
function trend(valueAt: (second: number) => number): Trend {
  const points = Array.from({ length: 102 }, (_, at) => ({ at, value: valueAt(at) }));
  return trendOf({ name: 'heap', points, allowed: (median) => median / 10 });
}

describe('the growth of a series', () => {
  test('is that of its second half', () => {
    expect(trend((at) => 1_000 + at).growth).toBeCloseTo(50);
    expect(trend((at) => Math.min(at, 40)).growth).toBe(0);
  });

  test('ignores single peaks and noise', () => {
    expect(trend((at) => (at % 7 === 0 ? 5_000 : 1_000)).growth).toBe(0);
    expect(trend((at) => 1_000 + at + (at % 3) * 10).growth).toBeCloseTo(50, -1);
  });

  test('excludes the points before and after the load', () => {
    const { start, end, growth } = trend((at) => (at === 0 || at === 101 ? 0 : 500));
    expect([start, end, growth]).toEqual([0, 0, 0]);
  });

  test('has a limit that depends on the median', () => {
    expect(trend(() => 1_000)).toEqual({
      name: 'heap',
      start: 1_000,
      warm: 1_000,
      median: 1_000,
      max: 1_000,
      end: 1_000,
      growth: 0,
      allowed: 100,
    });
  });

  test('is unknown without measurements', () => {
    expect(() => trendOf({ name: 'heap', points: [{ at: 0, value: 1 }], allowed: undefined })).toThrow(
      'too few points',
    );
  });
});
