import { isUtf8 } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { isJson } from '../../src/envelope/json/json.ts';
import { classes, classNames, lengthOf, paddedPlaintext } from '../../trials/oracle/classes.ts';
import { compare, isApart, objections, type Comparison } from '../../trials/oracle/judge.ts';
import { measure } from '../../trials/oracle/measure.ts';
import { Random } from '../../trials/oracle/random.ts';
import { startLiveSidecar } from '../../trials/oracle/sidecar.ts';
import { detectableDelta, differenceOf, median, shiftFor, sorted } from '../../trials/oracle/statistics.ts';

const random = (): Random => new Random(7);

/** `count` durations, each up to 1,000 above `centre`. */
function timesAround(centre: number, count: number, source: Random): number[] {
  return Array.from({ length: count }, () => centre + source.below(1_000));
}

test('a measurement records a time for each request, and all responses are equal', async () => {
  const sidecar = await startLiveSidecar();
  onTestFinished(() => sidecar.stop());
  const times = await measure(sidecar.port, 352, 20, random());

  for (const name of classNames) {
    expect(times[name]).toHaveLength(20);
    for (const time of times[name]) expect(time).toBeGreaterThan(0);
  }
  // The sidecar's log distinguishes the classes: two of the six have bad padding.
  const reasons = await vi.waitFor(() => {
    const known = sidecar.log().flatMap(({ reason }) => (typeof reason === 'string' ? [reason] : []));
    expect(known).toHaveLength(6 * (2 + 20));
    return known;
  });
  expect(reasons.filter((reason) => reason === 'padding')).toHaveLength(2 * (2 + 20));
  expect(reasons.filter((reason) => reason === 'not_json')).toHaveLength(4 * (2 + 20));
  expect(compare(times, random()).map(({ expected }) => expected)).toEqual([
    'alike',
    'alike',
    'alike',
    'alike',
    'apart',
  ]);
});

test.each(classNames.flatMap((name) => [64, 352, 4_096].map((length) => [name, length] as const)))(
  'an envelope of the class "%s" of %d bytes has the property that its name says',
  (name, length) => {
    const { padding, fault } = classes[name];
    const source = random();
    for (let i = 0; i < 50; i += 1) {
      const whole = paddedPlaintext(name, length, source);
      const last = whole.at(-1) ?? 0;
      const isPadded = last > 0 && last <= 16 && whole.subarray(-last).every((byte) => byte === last);
      expect([whole.length, isPadded]).toEqual([lengthOf(name, length), padding === 'good']);
      const content = isPadded ? whole.subarray(0, -last) : whole;
      expect(isJson(content)).toBe(false);
      expect(isUtf8(content)).toBe(fault === 'none');
      // Apart from the invalid UTF-8, the document is valid.
      if (fault === 'first') expect(isJson(content.fill('[', 0, 1))).toBe(true);
      if (fault === 'last') expect(isJson(content.fill(']', content.length - 1))).toBe(true);
    }
  },
);

describe('the difference of two samples', () => {
  test('is the share of pairs in which the first is larger, minus the share in which the second is', () => {
    // Of the nine pairs, the first value is larger in four, smaller in three and equal in two.
    const { delta, shift } = differenceOf([1, 4, 6], [2, 4, 4], random());
    expect(delta).toBeCloseTo(1 / 9, 10);
    expect(shift).toBe(0);
  });

  test.each([
    [[5, 6, 7], [1, 2, 3], 1],
    [[1, 2, 3], [5, 6, 7], -1],
    [[1, 2, 3], [1, 2, 3], 0],
  ])('of %j and %j is %d', (first, second, delta) => {
    expect(differenceOf(first, second, random()).delta).toBe(delta);
  });

  test('is significant or not by the Mann-Whitney test', () => {
    // Two samples of ten values without ties. No continuity correction is applied.
    const first = [11, 12, 13, 14, 15, 16, 17, 3.5, 4.5, 5.5];
    const second = [1, 2, 3, 4, 5, 6, 7, 8, 18, 19];
    const larger = first.flatMap((a) => second.filter((b) => a > b)).length;
    const { delta, z, p } = differenceOf(first, second, random());
    expect(delta).toBeCloseTo((2 * larger) / 100 - 1, 10);
    const score = (larger - 50) / Math.sqrt((10 * 10 * 21) / 12);
    expect(z).toBeCloseTo(score, 10);
    expect(p).toBeCloseTo(2 * upperTail(score), 5);
  });

  test('lies within its confidence intervals, and is found if there is one', () => {
    const source = random();
    const [x, y] = [timesAround(50_100, 2_000, source), timesAround(50_000, 2_000, source)];
    const found = differenceOf(x, y, source);
    // If two uniform distributions of width 1,000 are 100 apart, P(x > y) = 1 - 0.9² / 2, so delta is 0.19.
    expect(found.delta).toBeCloseTo(0.19, 1);
    for (const [[low, high], value] of [
      [found.deltaInterval, 0.19],
      [found.shiftInterval, 100],
    ] as const) {
      expect(low).toBeLessThan(value);
      expect(high).toBeGreaterThan(value);
    }
    expect(isApart(found)).toBe(true);
    expect(isApart(differenceOf(timesAround(50_000, 2_000, source), y, source))).toBe(false);
  });

  test('has a known smallest detectable size', () => {
    expect(detectableDelta(10_000, 10_000)).toBeCloseTo(0.0373, 4);
    // As above, a shift of 100 in 1,000 results in a delta of 0.19.
    expect(shiftFor(timesAround(0, 20_000, random()), 0.19)).toBeGreaterThan(90);
    expect(shiftFor(timesAround(0, 20_000, random()), 0.19)).toBeLessThan(110);
  });

  test.each([
    [[3, 1, 2], 2],
    [[4, 1, 2, 3], 2.5],
  ])('the median of %j is %d', (values, expected) => {
    expect(median(sorted(values))).toBe(expected);
  });
});

/** The probability of a value above `z` in the normal distribution, by numerical integration. */
function upperTail(z: number): number {
  const step = 1e-4;
  let sum = 0;
  for (let x = z + step / 2; x < 10; x += step) sum += Math.exp((-x * x) / 2) * step;
  return sum / Math.sqrt(2 * Math.PI);
}

describe('the judgement', () => {
  const comparison = (expected: Comparison['expected'], delta: number, p: number): Comparison => ({
    name: 'x : y',
    expected,
    difference: { delta, p, z: 0, deltaInterval: [delta, delta], shift: 0, shiftInterval: [0, 0] },
  });

  test.each([
    ['alike', 0.049, 0, []],
    ['alike', 0.05, 0.0009, ['told apart: x : y']],
    ['alike', -0.05, 0.0009, ['told apart: x : y']],
    ['alike', 0.05, 0.001, []],
    ['apart', 0.05, 0.0009, []],
    ['apart', 0.049, 0.0009, ['not told apart, so this measurement is blind: x : y']],
  ] as const)('of classes that should be %s, with a delta of %d and p = %d', (expected, delta, p, found) => {
    expect(objections([comparison(expected, delta, p)])).toEqual(found);
  });
});

test('random numbers repeat with their seed, and the order is random', () => {
  const numbers = (seed: number): number[] => {
    const source = new Random(seed);
    return Array.from({ length: 100_000 }, () => source.below(10));
  };
  expect(numbers(1)).toEqual(numbers(1));
  expect(numbers(1)).not.toEqual(numbers(2));
  const counts = Array.from({ length: 10 }, (_, digit) => numbers(3).filter((number) => number === digit).length);
  for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500);
  const source = random();
  const orders = new Set(Array.from({ length: 200 }, () => source.shuffle([1, 2, 3]).join('')));
  expect(orders.size).toBe(6);
});

test.each([
  ['--requests', '19'],
  ['--length', '100'],
  ['--length', '48'],
  ['--requests', '1e9.5'],
  ['--seed', 'x'],
  ['--nonsense', '1'],
])('npm run oracle refuses %s %s with its usage', (...args) => {
  const program = fileURLToPath(new URL('../../trials/oracle/main.ts', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  expect(status).toBe(2);
  expect(stderr).toContain('--requests N');
});
