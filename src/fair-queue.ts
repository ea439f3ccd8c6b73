/** Queues of work that take turns, however much waits in each. */
export class TurnAbout {
  /** In the order of their turns. */
  #queues: readonly Pick<TurnAbout, 'shift'>[];

  constructor(...queues: readonly Pick<TurnAbout, 'shift'>[]) {
    this.#queues = queues;
  }

  /** Removes the next work, for the caller to start. */
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

/** Waiting work, by owner. Owners take turns: however much work one of them has, the others wait for one piece of it at a time. */
export class FairQueue<Owner> {
  /**
   * In the order of turns, except for the owner of the last turn, who is moved to the end at the next one: owners who came meanwhile go
   * first.
   */
  readonly #waiting = new Map<Owner, Set<() => void>>();
  readonly #isReady: (owner: Owner) => boolean;
  #last: { readonly owner: Owner } | undefined;

  /** @param isReady whether an owner may have a turn now */
  constructor(isReady: (owner: Owner) => boolean = () => true) {
    this.#isReady = isReady;
  }

  /** @returns a function that withdraws the work */
  add(owner: Owner, start: () => void): () => void {
    const own = this.#waiting.get(owner) ?? new Set();
    own.add(start);
    this.#waiting.set(owner, own);
    return () => void own.delete(start);
  }

  /** Removes the next work, for the caller to start. */
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
