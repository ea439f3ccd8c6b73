/** Buckets per octave. With this number, a percentile is at most a fifth too high. */
const inOctave = 4;

/** The upper end of the first bucket, in milliseconds. */
const first = 0.25;

/** The second-to-last bucket ends at 0.25 ms × 2^18, a little over a minute. The last bucket also counts longer durations. */
const buckets = 18 * inOctave + 1;

/** Counts durations in buckets whose upper bounds grow by about a fifth from one to the next. */
export class Durations {
  readonly #counts = new Uint32Array(buckets);

  /** @param duration in milliseconds */
  add(duration: number): void {
    const bucket = duration <= first ? 0 : Math.min(buckets - 1, Math.ceil(Math.log2(duration / first) * inOctave));
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
  }

  addAll(others: Durations): void {
    others.#counts.forEach((count, bucket) => (this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count));
  }

  clear(): void {
    this.#counts.fill(0);
  }

  /**
   * The duration in milliseconds that this share of all durations does not exceed; undefined if there are none.
   *
   * @param share from 0 to 1
   */
  percentile(share: number): number | undefined {
    const wanted = this.#counts.reduce((sum, count) => sum + count, 0) * share;
    if (wanted === 0) return undefined;
    let reached = 0;
    const bucket = this.#counts.findIndex((count) => (reached += count) >= wanted);
    return Number((first * 2 ** (bucket / inOctave)).toPrecision(3));
  }
}
