import { LRUCache } from 'lru-cache';
import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';
import { Semaphore, WaitQueue, type Waiter } from './queues.ts';

/** How many keys are remembered that existed when they were looked up, longest ago first forgotten. */
const maxExisting = 10_000;

/** Rather does without a look-up than wait for it. */
const impatient: Waiter = { wait: () => Promise.reject(new Error('it does not wait')) };

/**
 * Limits pending look-ups of keys that are not cached, because until they end, guesses cannot be distinguished from
 * valid keys. Clients with too many guesses share a few look-ups and take turns. Cached keys are never limited, nor those that existed when
 * they were looked up before: after a reload or a lost connection, all are looked up again at the same moment, and a connection waits for one.
 */
export class LookUps {
  #limit = 0;
  /** Look-ups of throttled clients that wait for each other. */
  readonly #queue = new WaitQueue();
  readonly #throttled = new Semaphore(this.#queue);
  /** All that wait for a place. With an empty cache, every key in use is looked up at the same moment. */
  readonly #waiting = new WaitQueue();
  readonly #pending = new Semaphore(this.#waiting);
  /** Hashes of keys that existed. */
  readonly #existing = new LRUCache<string, true>({ max: maxExisting });

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /**
   * Look-ups may be pending for a quarter of the requests that may be in flight, at least two, and three times as many may wait for a
   * place; an eighth more, at least one, may be of throttled clients.
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
    if (this.#existing.has(hash)) return this.#lookUp(directory, hash);
    return isThrottled() ? this.#askThrottled(directory, hash, waiter) : this.#ask(directory, hash, waiter);
  }

  /** For a request that does not wait for the result: of any number of them, only as many as of throttled clients are looked up. */
  findUnawaited(directory: KeyDirectory, hash: string): LookupResult | Promise<LookupResult> {
    return directory.holds(hash) ? directory.find(hash) : this.#askThrottled(directory, hash, impatient);
  }

  #askThrottled(directory: KeyDirectory, hash: string, waiter: Waiter): LookupResult | Promise<LookupResult> {
    if (this.#queue.length >= this.#limit) return 'unavailable';
    const limit = Math.max(1, Math.floor(this.#limit / 8));
    // Not among the others' places: a request that is given up while it waits for a second place would never give the first one back.
    return this.#throttled.run(limit, this.#queue, waiter, () => this.#lookUp(directory, hash));
  }

  #ask(directory: KeyDirectory, hash: string, waiter: Waiter): LookupResult | Promise<LookupResult> {
    if (this.#waiting.length >= 3 * this.#limit) return 'unavailable';
    return this.#pending.run(this.#limit, this.#waiting, waiter, () => this.#lookUp(directory, hash));
  }

  async #lookUp(directory: KeyDirectory, hash: string): Promise<LookupResult> {
    const found = await directory.find(hash);
    if (found === undefined) this.#existing.delete(hash);
    else if (found !== 'unavailable') this.#existing.set(hash, true);
    return found;
  }
}
