import { LRUCache } from 'lru-cache';
import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';
import { Semaphore, WaitQueue, type Waiter } from '../../wait-queue.ts';

/** Maximum number of keys remembered as having existed when they were last looked up. Keys looked up longest ago are forgotten first. */
const maxExisting = 10_000;

/** Who has made too many guesses: the client, or only other clients of its network. */
export type Throttle = 'client' | 'network';

/** A waiter that refuses to wait, so that a look-up for which no slot is free is given up. */
const impatient: Waiter = { wait: () => Promise.reject(new Error('it does not wait')) };

/**
 * Limits pending look-ups of keys that are not cached, because a guess cannot be distinguished from a valid key until its look-up ends.
 * Clients that have made too many guesses share a few look-up slots and take turns. Cached keys are never limited. Keys that existed when
 * they were last looked up are not limited either, because after a reload or a lost connection, all of them are looked up again at the same
 * moment. Each connection waits for only one such look-up at a time.
 */
export class LookUps {
  #limit = 0;
  /** The waiting look-ups of throttled clients. */
  readonly #queue = new WaitQueue();
  readonly #throttled = new Semaphore(this.#queue);
  /** The other waiting look-ups. If the cache is empty, every key in use is looked up at the same moment. */
  readonly #waiting = new WaitQueue();
  readonly #pending = new Semaphore(this.#waiting);
  /** Hashes of keys that existed when they were last looked up. */
  readonly #existing = new LRUCache<string, true>({ max: maxExisting });

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /**
   * There are a quarter as many look-up slots as in-flight slots, but at least two. Three times as many look-ups may wait for a slot.
   * Throttled clients have separate slots, an eighth as many, but at least one.
   */
  resize(inFlight: number): void {
    this.#limit = Math.max(2, Math.floor(inFlight / 4));
  }

  /** @param throttle called only if the key is not cached */
  find(
    directory: KeyDirectory,
    hash: string,
    throttle: () => Throttle | undefined,
    waiter: Waiter,
  ): LookupResult | Promise<LookupResult> {
    if (directory.holds(hash)) return directory.find(hash);
    if (this.#existing.has(hash)) return this.#lookUp(directory, hash);
    const throttled = throttle();
    // A merchant may share its network with a client that guesses, so the network is throttled only while other clients need the slots.
    const isThrottled = throttled === 'client' || (throttled === 'network' && this.#pending.running >= this.#limit / 2);
    return isThrottled ? this.#askThrottled(directory, hash, waiter) : this.#ask(directory, hash, waiter);
  }

  /** Looks up a key for a request that does not wait for the result. All such look-ups share the slots of throttled clients. */
  findUnawaited(directory: KeyDirectory, hash: string): LookupResult | Promise<LookupResult> {
    return directory.holds(hash) ? directory.find(hash) : this.#askThrottled(directory, hash, impatient);
  }

  #askThrottled(directory: KeyDirectory, hash: string, waiter: Waiter): LookupResult | Promise<LookupResult> {
    if (this.#queue.length >= this.#limit) return 'unavailable';
    const limit = Math.max(1, Math.floor(this.#limit / 8));
    // A look-up of a throttled client does not take one of the other slots as well. If its request ended while the look-up waited for a
    // second slot, the first slot would never be given back.
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
