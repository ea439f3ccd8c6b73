/** Something that may take only so long. */
export interface Waiting {
  /** When it is over, on `performance.now()`'s scale; Infinity while nothing is waited for. */
  readonly deadline: number;
  /** Called once the deadline has passed, again at each sweep until the deadline moves or the waiting is removed. */
  expire(): void;
}

/**
 * One coarse sweep over everything that waits. A timer of its own for each wait would cost every request microseconds
 * for what hardly ever happens; timeouts are late by one interval at most.
 */
export class Deadlines<T extends Waiting> {
  readonly #waiting = new Set<T>();
  #sweep: NodeJS.Timeout | undefined;

  /** @param interval milliseconds between sweeps */
  start(interval: number): void {
    clearInterval(this.#sweep);
    this.#sweep = setInterval(() => this.#expireAll(), interval).unref();
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  get size(): number {
    return this.#waiting.size;
  }

  add(waiting: T): void {
    this.#waiting.add(waiting);
  }

  /** @returns whether it was there */
  delete(waiting: T): boolean {
    return this.#waiting.delete(waiting);
  }

  forEach(work: (waiting: T) => void): void {
    for (const waiting of this.#waiting) work(waiting);
  }

  /** The first that satisfies the test, by looking at each. */
  find(test: (waiting: T) => boolean): T | undefined {
    for (const waiting of this.#waiting) if (test(waiting)) return waiting;
    return undefined;
  }

  /** The last that satisfies the test, by looking at each. */
  findLast(test: (waiting: T) => boolean): T | undefined {
    let last: T | undefined;
    for (const waiting of this.#waiting) if (test(waiting)) last = waiting;
    return last;
  }

  #expireAll(): void {
    const now = performance.now();
    for (const waiting of this.#waiting) if (waiting.deadline <= now) waiting.expire();
  }
}
