import { LRUCache } from 'lru-cache';
import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';
import { Semaphore, WaitQueue, type Waiter } from './queues.ts';

/** How many keys are remembered that existed when they were looked up. Those looked up longest ago are forgotten first. */
const maxExisting = 10_000;

/** Gives up a look-up rather than wait for it. */
const impatient: Waiter = { wait: () => Promise.reject(new Error('it does not wait')) };

/**
 * Limits pending look-ups of keys that are not cached, because until they end, guesses cannot be distinguished from valid keys. Clients
 * with too many guesses share a few look-ups and take turns. Keys that are cached are never limited, nor are those that existed when they
 * were last looked up: after a reload or a lost connection, all of them are looked up again at the same moment, and each connection waits
 * for only one.
 */
export class LookUps {
  #limit = 0;
  /** Look-ups of throttled clients that wait for each other. */
  readonly #queue = new WaitQueue();
  readonly #throttled = new Semaphore(this.#queue);
  /** Other look-ups that wait for a place. With an empty cache, every key in use is looked up at the same moment. */
  readonly #waiting = new WaitQueue();
  readonly #pending = new Semaphore(this.#waiting);
  /** Hashes of keys that existed. */
  readonly #existing = new LRUCache<string, true>({ max: maxExisting });

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /**
   * A quarter as many look-ups may be pending as requests may be in flight, but at least two. Three times as many may wait for a place. In
   * addition, throttled clients may have an eighth as many, but at least one.
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

  /** For a request that does not wait for the result. However many there are, they share the look-ups of throttled clients. */
  findUnawaited(directory: KeyDirectory, hash: string): LookupResult | Promise<LookupResult> {
    return directory.holds(hash) ? directory.find(hash) : this.#askThrottled(directory, hash, impatient);
  }

  #askThrottled(directory: KeyDirectory, hash: string, waiter: Waiter): LookupResult | Promise<LookupResult> {
    if (this.#queue.length >= this.#limit) return 'unavailable';
    const limit = Math.max(1, Math.floor(this.#limit / 8));
    // Takes none of the others' places: a request that is given up while it waits for a second place would never give the first one back.
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
