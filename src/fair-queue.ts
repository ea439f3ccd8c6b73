/** Queues of work that take turns, however much work waits in each of them. */
export class TurnAbout {
  /** The queue with the next turn comes first. */
  #queues: readonly Pick<TurnAbout, 'shift'>[];

  constructor(...queues: readonly Pick<TurnAbout, 'shift'>[]) {
    this.#queues = queues;
  }

  /** Removes and returns the next piece of work, for the caller to start. */
  shift(): (() => void) | undefined {
    for (const queue of this.#queues) {
      const start = queue.shift();
      if (start === undefined) continue;
      this.#queues = [...this.#queues.filter((other) => other !== queue), queue];
      return start;
    }
    return undefined;
  }
}

/**
 * Waiting work, by owner. Owners take turns, so however much work one owner has, the other owners wait for only one piece of that work at a
 * time.
 */
export class FairQueue<Owner> {
  /**
   * In the order of turns, except for the owner that had the last turn. That owner is moved to the end only when the next turn begins, so
   * that owners that are added in the meantime go first.
   */
  readonly #waiting = new Map<Owner, Set<() => void>>();
  readonly #isReady: (owner: Owner) => boolean;
  #last: { readonly owner: Owner } | undefined;

  /** @param isReady whether an owner may have a turn now */
  constructor(isReady: (owner: Owner) => boolean = () => true) {
    this.#isReady = isReady;
  }

  /** Whether no work waits. May be false for a moment after the last piece was removed. */
  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** Adds work that waits for a turn of its owner. @returns a function that withdraws the work */
  add(owner: Owner, start: () => void): () => void {
    const own = this.#waiting.get(owner) ?? new Set();
    own.add(start);
    this.#waiting.set(owner, own);
    return () => {
      own.delete(start);
      if (own.size === 0 && this.#waiting.get(owner) === own) this.#waiting.delete(owner);
    };
  }

  /** Removes and returns the next piece of work, for the caller to start. */
  shift(): (() => void) | undefined {
    if (this.#last !== undefined) this.#moveToEnd(this.#last.owner);
    for (const [owner, own] of this.#waiting) {
      const [start] = own;
      if (start === undefined) {
        this.#waiting.delete(owner);
        continue;
      }
      if (!this.#isReady(owner)) continue;
      own.delete(start);
      this.#last = { owner };
      return start;
    }
    return undefined;
  }

  #moveToEnd(owner: Owner): void {
    const own = this.#waiting.get(owner);
    this.#waiting.delete(owner);
    if (own !== undefined && own.size > 0) this.#waiting.set(owner, own);
  }
}

/** Runs one piece of work at a time. Owners of waiting work take turns. */
export class OneAtATime {
  readonly #waiting = new FairQueue<string>();
  #isBusy = false;

  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    if (this.#isBusy) await new Promise<void>((start) => void this.#waiting.add(owner, start));
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#isBusy = false;
      else next();
    }
  }
}
