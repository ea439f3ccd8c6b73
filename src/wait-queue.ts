import { LinkedList, type Linked } from './linked-list.ts';

class WaitingWork implements Linked<WaitingWork> {
  previous: WaitingWork | undefined;
  next: WaitingWork | undefined;
  readonly start: () => void;

  constructor(start: () => void) {
    this.start = start;
  }
}

/** A queue of waiting work. The caller must limit how much work waits, and must withdraw the work of a request that has ended. */
export class WaitQueue {
  readonly #waiting = new LinkedList<WaitingWork>();

  get length(): number {
    return this.#waiting.size;
  }

  /**
   * @param start must not throw
   * @param isFirst whether the work goes before other waiting work
   * @returns a function that withdraws the work
   */
  add(start: () => void, isFirst = false): () => void {
    const work = new WaitingWork(start);
    if (isFirst) this.#waiting.addFirst(work);
    else this.#waiting.add(work);
    return () => this.#waiting.remove(work);
  }

  /** Removes the work that has waited longest, for the caller to start. */
  shift(): (() => void) | undefined {
    return this.#remove(this.#waiting.first);
  }

  /** Removes the work that was added last, for the caller to start. */
  shiftNewest(): (() => void) | undefined {
    return this.#remove(this.#waiting.last);
  }

  #remove(work: WaitingWork | undefined): (() => void) | undefined {
    if (work === undefined) return undefined;
    this.#waiting.remove(work);
    return work.start;
  }
}

/** Of this many pieces of work, one is the oldest that waits; the others are the newest. */
const oldestOf = 4;

/**
 * A queue in which the newest work goes first. In a flood, the connections that have waited longest are soon closed for new ones, and
 * thousands of them may have been opened just before. Every fourth time, the oldest work goes first, so that a client that was overtaken does
 * not wait until no newer clients arrive.
 */
export class NewestFirst extends WaitQueue {
  #shifted = 0;

  override add(start: () => void): () => void {
    return super.add(start);
  }

  override shift(): (() => void) | undefined {
    this.#shifted += 1;
    return this.#shifted % oldestOf === 0 ? super.shift() : this.shiftNewest();
  }
}

/** A request that can wait in a queue. */
export interface Waiter {
  /** Waits in a queue. The promise never settles if the request ends before its turn. */
  wait(queue: Pick<WaitQueue, 'add'>): Promise<void>;
}

/** Limits how many pieces of work run at a time. When one ends, the next one that waits takes its place. */
export class Semaphore {
  readonly #waiting: Pick<WaitQueue, 'shift'>;
  #pending = 0;

  constructor(waiting: Pick<WaitQueue, 'shift'>) {
    this.#waiting = waiting;
  }

  /**
   * Runs `work`: at once if fewer than `limit` pieces of work are running, otherwise after a wait in `queue`.
   *
   * @param queue the semaphore's own queue, or one from which the semaphore's queue takes its work
   */
  async run<T>(limit: number, queue: Pick<WaitQueue, 'add'>, waiter: Waiter, work: () => T | Promise<T>): Promise<T> {
    if (this.#pending < limit) this.#pending += 1;
    else await waiter.wait(queue);
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#pending -= 1;
      else next();
    }
  }
}
