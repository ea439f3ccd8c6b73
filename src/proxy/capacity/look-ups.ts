import { LRUCache } from 'lru-cache';
import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';
import { NestedFairQueue } from '../../fair-queue.ts';
import { Semaphore, type Waiter } from '../../wait-queue.ts';

/** Maximum number of keys remembered as having existed when they were last looked up. Keys looked up longest ago are forgotten first. */
const maxExisting = 10_000;

/** A client whose key is not cached. */
export interface Guesser {
  /** The client's networks, the largest first, and then its address. */
  readonly networks: readonly string[];
  /** Whether the client has made too many guesses. */
  readonly isThrottled: boolean;
}

/** A waiter that refuses to wait. If no slot is free, its look-up is not made. */
const impatient: Waiter = { wait: () => Promise.reject(new Error('it does not wait')) };

/** Look-ups that wait for a slot. Networks take turns; within a network, so do its smaller networks and then their clients. */
class Line {
  readonly #queue = new NestedFairQueue();
  readonly #slots = new Semaphore(this.#queue);

  /**
   * Runs a look-up when it is its turn.
   *
   * @param most how many look-ups may wait. If too many wait, the oldest one of the network with the most waiting look-ups is evicted
   * @returns `unavailable` if the look-up was evicted
   */
  async run(
    slots: number,
    most: number,
    networks: readonly string[],
    waiter: Waiter,
    lookUp: () => Promise<LookupResult>,
  ): Promise<LookupResult> {
    const evicted = Promise.withResolvers<LookupResult>();
    const add = (start: () => void): (() => void) => {
      const withdraw = this.#queue.add(networks, { start, evict: () => evicted.resolve('unavailable') });
      if (this.#queue.length > most) this.#queue.evict();
      return withdraw;
    };
    return Promise.race([evicted.promise, this.#slots.run(slots, { add }, waiter, lookUp)]);
  }
}

/**
 * Limits pending look-ups of keys that are not cached, because a guess cannot be distinguished from a valid key until its look-up ends.
 * Clients that have made too many guesses have separate slots. Cached keys are never limited. Keys that existed when they were last looked
 * up are not limited either, because after a reload or a lost connection, all of them are looked up again at once. Each connection waits
 * for only one such look-up at a time.
 */
export class LookUps {
  #limit = 0;
  readonly #throttled = new Line();
  /** The other look-ups. If the cache is empty, all keys in use are looked up at once. */
  readonly #others = new Line();
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

  /** @param guesser called only if the key is not cached */
  find(
    directory: KeyDirectory,
    hash: string,
    guesser: () => Guesser,
    waiter: Waiter,
  ): LookupResult | Promise<LookupResult> {
    if (directory.holds(hash)) return directory.find(hash);
    const lookUp = (): Promise<LookupResult> => this.#lookUp(directory, hash);
    if (this.#existing.has(hash)) return lookUp();
    const { networks, isThrottled } = guesser();
    return isThrottled
      ? this.#throttled.run(this.#slotsOfThrottled, this.#limit, networks, waiter, lookUp)
      : this.#others.run(this.#limit, 3 * this.#limit, networks, waiter, lookUp);
  }

  /** Looks up a key for a request that does not wait for the result. All such look-ups share the slots of throttled clients. */
  findUnawaited(directory: KeyDirectory, hash: string): LookupResult | Promise<LookupResult> {
    if (directory.holds(hash)) return directory.find(hash);
    const lookUp = (): Promise<LookupResult> => this.#lookUp(directory, hash);
    return this.#throttled.run(this.#slotsOfThrottled, this.#limit, [], impatient, lookUp);
  }

  get #slotsOfThrottled(): number {
    return Math.max(1, Math.floor(this.#limit / 8));
  }

  async #lookUp(directory: KeyDirectory, hash: string): Promise<LookupResult> {
    const found = await directory.find(hash);
    if (found === undefined) this.#existing.delete(hash);
    else if (found !== 'unavailable') this.#existing.set(hash, true);
    return found;
  }
}
