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
   * The owners in the order of their turns, except for the owner that had the last turn. That owner is moved to the end only when the next
   * turn begins, so that owners that are added in the meantime go first.
   */
  readonly #waiting = new Map<Owner, Set<() => void>>();
  readonly #isReady: (owner: Owner) => boolean;
  #last: { readonly owner: Owner } | undefined;
  length = 0;

  /** @param isReady whether an owner may have a turn now */
  constructor(isReady: (owner: Owner) => boolean = () => true) {
    this.#isReady = isReady;
  }

  /** Adds work that waits for its owner's turn. @returns a function that withdraws the work */
  add(owner: Owner, start: () => void): () => void {
    const own = this.#waiting.get(owner) ?? new Set();
    own.add(start);
    this.length += 1;
    this.#waiting.set(owner, own);
    return () => {
      if (own.delete(start)) this.length -= 1;
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
      this.length -= 1;
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

/** Work that waits for its turn. */
interface WaitingWork {
  readonly start: () => void;
  /** Called instead of `start` if the work is evicted. */
  readonly evict: () => void;
}

/**
 * Waiting work of owners in nested groups, such as clients in networks. The outer groups take turns; within each, so do its inner groups
 * and then their owners. Therefore, a group does not get more turns by having more owners.
 */
export class NestedFairQueue {
  length = 0;
  /** The work of an owner; empty if this is a group. */
  readonly #work = new Set<WaitingWork>();
  /** The groups, or owners, within this group, in the order of turns. */
  readonly #within = new Map<string, NestedFairQueue>();

  /**
   * Adds work that waits for a turn.
   *
   * @param path the owner's groups, outermost first, and then the owner
   * @returns a function that withdraws the work. It returns whether the work was still waiting
   */
  add([name, ...rest]: readonly string[], work: WaitingWork): () => boolean {
    this.length += 1;
    const group = name === undefined ? undefined : (this.#within.get(name) ?? new NestedFairQueue());
    if (name === undefined || group === undefined) this.#work.add(work);
    else this.#within.set(name, group);
    const withdraw = group?.add(rest, work) ?? (() => this.#work.delete(work));
    return () => {
      const isWithdrawn = withdraw();
      if (isWithdrawn) this.length -= 1;
      if (isWithdrawn && name !== undefined && group?.length === 0) this.#within.delete(name);
      return isWithdrawn;
    };
  }

  /** Removes and returns the next piece of work, for the caller to start. */
  shift(): (() => void) | undefined {
    const work = this.#remove((groups) => groups.next().value);
    return work?.start;
  }

  /** Evicts the oldest work of the owner with the most work, in the group with the most work. */
  evict(): void {
    this.#remove((groups) => groups.reduce((most, each) => (each[1].length > most[1].length ? each : most)))?.evict();
  }

  /** Removes the oldest work in the group that `choose` chooses. The group then goes to the end. */
  #remove(choose: (groups: MapIterator<Group>) => Group | undefined): WaitingWork | undefined {
    if (this.length === 0) return undefined;
    this.length -= 1;
    const [first] = this.#work;
    if (first !== undefined) {
      this.#work.delete(first);
      return first;
    }
    const [name, group] = choose(this.#within.entries()) ?? [];
    if (name === undefined || group === undefined) return undefined;
    const work = group.#remove(choose);
    this.#within.delete(name);
    if (group.length > 0) this.#within.set(name, group);
    return work;
  }
}

type Group = [name: string, group: NestedFairQueue];

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
