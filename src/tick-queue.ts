import { FairQueue, NestedFairQueue, TurnAbout } from './fair-queue.ts';
import { WaitQueue } from './wait-queue.ts';

/** A queue pauses for this many times as long as its work took (see `restAfter`). */
const restFactor = 3;

/**
 * Spreads work over turns of the event loop, so that other requests are served in between. Use it for work that clients can request in any
 * amount.
 */
export class TickQueue {
  readonly #perTick: number;
  readonly #waiting: WaitQueue;
  #started = 0;
  #scheduled = false;
  readonly #rests: boolean;
  readonly #maxTime: number;
  /** When the latest work started, by `performance.now()`. */
  #began = 0;
  /** The time before which nothing starts, by the same clock. */
  #restUntil = 0;

  /**
   * @param perTick maximum number of pieces of work that start in one turn of the event loop
   * @param rests whether the queue pauses after each turn in which work has started (see `restAfter`)
   * @param maxTime once a turn has taken this many milliseconds, no further waiting work starts in it
   * @param waiting the queue in which the work waits
   */
  constructor(perTick: number, rests = false, maxTime = Infinity, waiting = new WaitQueue()) {
    this.#waiting = waiting;
    this.#perTick = perTick;
    this.#rests = rests;
    this.#maxTime = maxTime;
  }

  /** Whether a piece of work may start in this turn, because no work waits and the turn has room. If so, the work is counted. */
  tryStart(): boolean {
    if (this.#waiting.length > 0 || this.#started >= this.#perTick) return false;
    this.#started += 1;
    // A reset of the count is scheduled only once half the turn's room is used up, so that a single request does not cause a reset.
    if (this.#started * 2 >= this.#perTick) this.#schedule();
    return true;
  }

  /** Runs a piece of work in a later turn. @see WaitQueue.add */
  add(start: () => void, isFirst = false): () => void {
    this.#schedule();
    return this.#waiting.add(start, isFirst);
  }

  /**
   * Starts nothing for three times as long as the work took, so that the work takes at most a quarter of the time. Otherwise, long work in
   * every turn, even if it is bounded, would keep new clients waiting, because a turn accepts only a few connections.
   *
   * @param began when the work began, by `performance.now()`
   * @param most how many milliseconds the work took at most, if other work was done in between
   */
  restAfter(began: number, most = Infinity): void {
    const now = performance.now();
    this.#restUntil = now + restFactor * Math.min(most, now - began);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const rest = this.#restUntil === 0 ? 0 : this.#restUntil - performance.now();
    if (rest > 0) setTimeout(this.#run, rest);
    else setImmediate(this.#run);
  }

  readonly #run = (): void => {
    this.#scheduled = false;
    if (this.#rests && this.#started > 0) this.restAfter(this.#began);
    this.#started = 0;
    const now = performance.now();
    this.#began = now;
    if (this.#restUntil > now) {
      this.#schedule();
      return;
    }
    this.#startNext();
  };

  readonly #startNext = (): void => {
    if (this.#started >= this.#perTick || performance.now() - this.#began >= this.#maxTime) return;
    const start = this.#waiting.shift();
    if (start === undefined) return;
    this.#started += 1;
    // Schedule another turn even if no other work waits, because only a new turn resets the count.
    this.#schedule();
    start();
    // `start` may resolve a promise. Start the next item only after all promise callbacks have run, so that their time counts too.
    queueMicrotask(() => process.nextTick(this.#startNext));
  };
}

/** The part of a queue that belongs to one owner. */
export type OwnTickQueue = Pick<TickQueue, 'add' | 'restAfter' | 'tryStart'>;

/**
 * Waits in a `TickQueue` for as many turns as there is work in another queue. A turn belongs to no piece of work: if a piece is withdrawn or
 * evicted, its turn stays, and serves other work. Otherwise, a withdrawal could take the turn of work that then waits for ever.
 */
class SharedTurns {
  readonly #ticks: Pick<TickQueue, 'add'>;
  readonly #waiting: Pick<WaitQueue, 'shift'>;
  readonly #length: () => number;
  /** How many turns are waited for: at least as many as there is work. */
  #turns = 0;

  /** @param length how much work waits */
  constructor(ticks: Pick<TickQueue, 'add'>, waiting: Pick<WaitQueue, 'shift'>, length: () => number) {
    this.#ticks = ticks;
    this.#waiting = waiting;
    this.#length = length;
  }

  /** Called after work was added. */
  request(): void {
    if (this.#turns >= this.#length()) return;
    this.#turns += 1;
    this.#ticks.add(() => {
      this.#turns -= 1;
      this.#waiting.shift()?.();
    });
  }
}

/** Like `TickQueue`, but for the work of several owners, which take turns. If there are groups of owners, the groups take turns too. */
export class FairTickQueue<Owner> {
  readonly #ticks: TickQueue;
  readonly #groups: readonly FairQueue<Owner>[];
  readonly #turns: SharedTurns;

  /** `groups` is the number of groups of owners; the other parameters are those of `TickQueue`. */
  constructor(perTick: number, maxTime?: number, groups = 1) {
    this.#ticks = new TickQueue(perTick, false, maxTime);
    this.#groups = Array.from({ length: groups }, () => new FairQueue<Owner>());
    const length = (): number => this.#groups.reduce((sum, group) => sum + group.length, 0);
    this.#turns = new SharedTurns(this.#ticks, new TurnAbout(...this.#groups), length);
  }

  of(owner: Owner, group = 0): OwnTickQueue {
    return {
      tryStart: () => this.#ticks.tryStart(),
      add: (start) => {
        const withdraw = this.#groups[group]?.add(owner, start);
        this.#turns.request();
        return () => withdraw?.();
      },
      restAfter: (began, most) => this.#ticks.restAfter(began, most),
    };
  }
}

/** Like `TickQueue`, but networks take turns; within a network, so do its smaller networks and then their clients. */
export class NestedTickQueue {
  readonly #waiting = new NestedFairQueue();
  readonly #turns: SharedTurns;

  constructor(ticks: Pick<TickQueue, 'add'>) {
    this.#turns = new SharedTurns(ticks, this.#waiting, () => this.#waiting.length);
  }

  /** @param path see `NestedFairQueue.add` @param evict called instead of `start` if the work is evicted */
  queueOf(path: readonly string[], evict: () => void): Pick<TickQueue, 'add'> {
    return {
      add: (start) => {
        const withdraw = this.#waiting.add(path, { start, evict });
        this.#turns.request();
        return () => void withdraw();
      },
    };
  }

  /** Evicts the oldest work of the network with the most work. @returns false if no work waits */
  evict(): boolean {
    const isEmpty = this.#waiting.length === 0;
    this.#waiting.evict();
    return !isEmpty;
  }
}
