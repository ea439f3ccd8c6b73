import { LRUCache } from 'lru-cache';

/** Subjects remembered at once; the ones longest quiet are forgotten first. */
const remembered = 10_000;

/** Counts failures by subject in windows of fixed length, in bounded memory. */
export class FailureLimiter {
  readonly #failures = new LRUCache<string, { count: number; readonly until: number }>({ max: remembered });

  /**
   * @param limit failures in a window that still get their own response
   * @param now   milliseconds on any steady scale, as everywhere here
   * @returns seconds until the subject is heard again, or undefined while it is within its limit
   */
  limited(subject: string, limit: number, now: number): number | undefined {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until || failures.count < limit) return undefined;
    return Math.ceil((failures.until - now) / 1_000);
  }

  /** Counts one failure; the first opens a window of `window` milliseconds. */
  failed(subject: string, window: number, now: number): void {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until) this.#failures.set(subject, { count: 1, until: now + window });
    else failures.count += 1;
  }
}
