/** A value, and the time at which it was measured, in seconds. */
export interface Point {
  readonly at: number;
  readonly value: number;
}

/** A resource that must not grow. */
export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
  /** How much the series may grow in the second half of the time, given its median; undefined if its growth is not judged. */
  readonly allowed: ((median: number) => number) | undefined;
}

/** The verdict on a series. */
export interface Trend {
  readonly name: string;
  readonly start: number;
  readonly warm: number;
  readonly median: number;
  readonly max: number;
  readonly end: number;
  readonly growth: number;
  readonly allowed: number | undefined;
}

/** Fractions of the time: the end of the warm-up, and the start of the part whose growth is judged. */
const warmAt = 0.2;
const secondHalf = 0.5;

/**
 * The first point was taken before the load, the last one after it. The growth is measured over the second half of the other points: it is
 * the median of the slopes between any two of them (Theil-Sen estimator), which single peaks do not affect.
 */
export function trendOf({ name, points, allowed }: Series): Trend {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (first === undefined || last === undefined) throw new Error(`${name}: too few points`);
  const time = (rest.at(-1) ?? last).at - first.at;
  const since = (share: number): Point[] => rest.filter(({ at }) => at >= first.at + time * share);
  const warm = since(warmAt);
  const middle = median(warm.map(({ value }) => value));
  return {
    name,
    start: first.value,
    warm: warm[0]?.value ?? Number.NaN,
    median: middle,
    max: Math.max(...points.map(({ value }) => value)),
    end: last.value,
    growth: slope(since(secondHalf)) * time * (1 - secondHalf),
    allowed: allowed?.(middle),
  };
}

/** The median of the slopes between any two points, per second. */
function slope(points: readonly Point[]): number {
  const slopes = points.flatMap((one, i) =>
    points.slice(i + 1).map((other) => (other.value - one.value) / (other.at - one.at)),
  );
  return median(slopes);
}

/** The middle value; NaN if there are no values. */
function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
