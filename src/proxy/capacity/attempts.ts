import { LRUCache } from 'lru-cache';
import { ownText } from '../../own-text.ts';
import type { MonotonicMs } from '../../times.ts';

/** Maximum number of subjects that are remembered. The least recently used are dropped first. */
const maxSubjects = 10_000;

/** Counts failures by subject in windows of fixed length, in bounded memory. */
export class FailureLimiter {
  readonly #failures = new LRUCache<string, { count: number; readonly until: MonotonicMs }>({ max: maxSubjects });

  /**
   * @param limit how many failures a subject may have in a window
   * @returns seconds until the subject may try again; undefined if the subject is within the limit
   */
  limited(subject: string, limit: number, now: MonotonicMs): number | undefined {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until || failures.count < limit) return undefined;
    return Math.ceil((failures.until - now) / 1_000);
  }

  /** Counts a failure. The first failure opens a window of `window` milliseconds. */
  failed(subject: string, window: number, now: MonotonicMs): void {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until)
      this.#failures.set(ownText(subject), { count: 1, until: now + window });
    else failures.count += 1;
  }
}
