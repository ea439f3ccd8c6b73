import type { Random } from './random.ts';

/** The difference between the times of two classes. */
export interface Difference {
  /**
   * Cliff's delta: the share of pairs in which the first class took longer, minus the share in which it took less time.
   * 0 if neither is slower, 1 and -1 if the classes do not overlap.
   */
  readonly delta: number;
  /** The 95 % confidence interval of delta. */
  readonly deltaInterval: Interval;
  /** The standard score of delta in the Mann-Whitney test: how many standard errors it is away from 0. */
  readonly z: number;
  /** The two-sided p-value of the Mann-Whitney test: the probability of a delta this far from 0 if there is no difference. */
  readonly p: number;
  /** The difference of the medians, in nanoseconds. */
  readonly shift: number;
  /** The 95 % confidence interval of the shift, from 1,000 resamples. */
  readonly shiftInterval: Interval;
}

export type Interval = readonly [low: number, high: number];

/** Compares two samples, neither of which may be empty. */
export function differenceOf(first: readonly number[], second: readonly number[], random: Random): Difference {
  const [x, y] = [sorted(first), sorted(second)];
  const [overX, overY] = [placements(x, y), placements(y, x)];
  const delta = 2 * mean(overX) - 1;
  // The variance of the placements gives the variance of their mean (DeLong, DeLong and Clarke-Pearson 1988).
  const error = 2 * 1.96 * Math.sqrt(variance(overX) / x.length + variance(overY) / y.length);

  const z = delta / standardError(x.length, y.length);
  const shifts = sorted(Array.from({ length: 1_000 }, () => resampledMedian(x, random) - resampledMedian(y, random)));
  return {
    delta,
    deltaInterval: [Math.max(-1, delta - error), Math.min(1, delta + error)],
    z,
    p: twoSided(z),
    shift: median(x) - median(y),
    shiftInterval: [shifts[25] ?? NaN, shifts[974] ?? NaN],
  };
}

/** The smallest delta that samples of these sizes show nine times out of ten with p < 0.001. */
export function detectableDelta(first: number, second: number): number {
  return (3.2905 + 1.2816) * standardError(first, second);
}

/** The nanoseconds that must be added to all `times` to make them differ from the measured ones by `delta`. */
export function shiftFor(times: readonly number[], delta: number): number {
  const x = sorted(times);
  let [low, high] = [0, (x.at(-1) ?? 0) - (x[0] ?? 0) + 1];
  while (high - low > 1) {
    const middle = (low + high) / 2;
    const longer = x.map((time) => time + middle);
    if (2 * mean(placements(longer, x)) - 1 < delta) low = middle;
    else high = middle;
  }
  return high;
}

export function median(ascending: Float64Array): number {
  const middle = (ascending.length - 1) / 2;
  return ((ascending[Math.floor(middle)] ?? NaN) + (ascending[Math.ceil(middle)] ?? NaN)) / 2;
}

export function sorted(values: readonly number[]): Float64Array {
  return Float64Array.from(values).toSorted();
}

/** For each value in `x`, the share of values in `y` that are smaller. Equal values count half. Both arrays are ascending. */
function placements(x: Float64Array, y: Float64Array): Float64Array {
  let [smaller, notLarger] = [0, 0];
  return x.map((value) => {
    while (smaller < y.length && (y[smaller] ?? NaN) < value) smaller += 1;
    while (notLarger < y.length && (y[notLarger] ?? NaN) <= value) notLarger += 1;
    return (smaller + notLarger) / 2 / y.length;
  });
}

/** The standard error of delta if there is no difference. Equal times, which are rare, would make it slightly smaller. */
function standardError(first: number, second: number): number {
  return Math.sqrt((first + second + 1) / (3 * first * second));
}

function mean(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function variance(values: Float64Array): number {
  const centre = mean(values);
  return values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1);
}

/** The median of a resample: as many values as `ascending` has, drawn from it with replacement. */
function resampledMedian(ascending: Float64Array, random: Random): number {
  const drawn = new Uint32Array(ascending.length);
  for (let i = 0; i < ascending.length; i += 1) {
    const at = random.below(ascending.length);
    drawn[at] = (drawn[at] ?? 0) + 1;
  }
  let below = 0;
  let at = -1;
  while (below * 2 < ascending.length) below += drawn[(at += 1)] ?? NaN;
  return ascending[at] ?? NaN;
}

/**
 * The probability of a value at least `z` above the mean of the normal distribution (Abramowitz and Stegun 7.1.26, to
 * within 2e-7).
 */
function twoSided(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const series = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
  return series.reduceRight((sum, coefficient) => (sum + coefficient) * t, 0) * Math.exp(-x * x);
}
