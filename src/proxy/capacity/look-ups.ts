import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';
import { Semaphore, WaitQueue, type Waiter } from './queues.ts';

/**
 * Limits pending look-ups of keys that are not cached, because until they end, guesses cannot be distinguished from
 * valid keys. Clients with too many guesses share a few look-ups and take turns. Cached keys are never limited.
 */
export class LookUps {
  #limit = 0;
  #pending = 0;
  /** Look-ups of throttled clients that wait for their turn. */
  readonly #queue = new WaitQueue();
  readonly #throttled = new Semaphore(this.#queue);

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /**
   * Look-ups may be pending for a quarter of the requests that may be in flight, at least two; an eighth of them, at least one,
   * may be those of throttled clients.
   */
  resize(inFlight: number): void {
    this.#limit = Math.max(2, Math.floor(inFlight / 4));
  }

  /** @param isThrottled called only if the key is not cached */
  find(
    directory: KeyDirectory,
    hash: string,
    isThrottled: () => boolean,
    waiter: Waiter,
  ): LookupResult | Promise<LookupResult> {
    if (directory.holds(hash)) return directory.find(hash);
    if (!isThrottled()) return this.#ask(directory, hash);
    if (this.#queue.length >= this.#limit) return 'unavailable';
    const limit = Math.max(1, Math.floor(this.#limit / 8));
    return this.#throttled.run(limit, this.#queue, waiter, () => this.#ask(directory, hash));
  }

  async #ask(directory: KeyDirectory, hash: string): Promise<LookupResult> {
    if (this.#pending >= this.#limit) return 'unavailable';
    this.#pending += 1;
    try {
      return await directory.find(hash);
    } finally {
      this.#pending -= 1;
    }
  }
}
