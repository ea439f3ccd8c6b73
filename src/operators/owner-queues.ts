import { FairQueue } from '../fair-queue.ts';
import { FairTickQueue } from '../proxy/capacity/queues.ts';

/** An owner pauses for this many times as long as its work took, because work may be synchronous and keep merchants waiting. */
const restFactor = 3;

/**
 * Maximum pause, in milliseconds. With a much lower maximum, pauses would be too short after long work, and one owner could keep merchants
 * waiting.
 */
const maxRest = 1_000;

/** After this many milliseconds, the next read of many owners begins even if the current one is still in progress. */
const maxReadTime = 3_000;

/** Whose work it is. */
export interface Owner {
  /** The owner, and usually the operation. */
  readonly queue: string;
  /** The hash of the token. The tokens of an owner take turns. */
  readonly token: string;
  /**
   * What the work does if there may be many such owners, as with tokens of accounts and viewers. The work of all of them begins one piece at a
   * time, and takes at most a quarter of the event loop's time before it first waits for something. Work that only reads runs one piece at a
   * time, because many slow reads would leave the database little time for revocations.
   */
  readonly ofMany: 'changes' | 'reads' | false;
}

/**
 * Does the work of each owner one piece at a time, with pauses in between, so that an owner with a lot of work does not hold up merchants
 * and other owners.
 */
export class OwnerQueues {
  /**
   * For each owner, the work that waits because other work of the owner is in progress or the owner pauses. The tokens of an owner take
   * turns.
   */
  readonly #waiting = new Map<string, FairQueue<string>>();
  readonly #ofMany = new FairTickQueue<string>(1);
  readonly #waitingReads = new FairQueue<string>();
  #isReading = false;

  /**
   * @param left if this signal aborts before the work has begun, the work is not done and the signal's reason is thrown
   * @param maxWait milliseconds until the owner's next work begins, even if this work is still in progress. Undefined: the next work waits
   *   until this work is over
   */
  async run<T>(
    { queue, token, ofMany }: Owner,
    left: AbortSignal,
    work: () => Promise<T>,
    maxWait?: number,
  ): Promise<T> {
    left.throwIfAborted();
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) this.#waiting.set(queue, new FairQueue());
    else await turn(waiting, token, left);
    const over = once(() => this.#startNext(queue));
    const began = performance.eventLoopUtilization();
    const passOn = maxWait === undefined ? undefined : setTimeout(over, maxWait).unref();
    try {
      if (ofMany === false) return await work();
      return await (ofMany === 'reads' ? this.#read(token, left, work) : this.#runOfMany(token, left, work));
    } finally {
      clearTimeout(passOn);
      // Only the time in which the process was busy counts, because work that waits for the database does not hold up merchants.
      const { active } = performance.eventLoopUtilization(began);
      setTimeout(over, Math.min(maxRest, restFactor * active)).unref();
    }
  }

  async #read<T>(token: string, left: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#isReading) await turn(this.#waitingReads, token, left);
    this.#isReading = true;
    const over = once(() => {
      const next = this.#waitingReads.shift();
      if (next === undefined) this.#isReading = false;
      else next();
    });
    const passOn = setTimeout(over, maxReadTime).unref();
    try {
      return await this.#runOfMany(token, left, work);
    } finally {
      clearTimeout(passOn);
      over();
    }
  }

  async #runOfMany<T>(token: string, left: AbortSignal, work: () => Promise<T>): Promise<T> {
    const turns = this.#ofMany.of(token);
    await turn({ add: (_token, start) => turns.add(start) }, token, left);
    const began = performance.now();
    const done = work();
    turns.restAfter(began);
    return done;
  }

  #startNext(owner: string): void {
    const start = this.#waiting.get(owner)?.shift();
    if (start === undefined) this.#waiting.delete(owner);
    else start();
  }
}

/** Waits for a turn. If the client leaves, the wait ends at once, so that the request does not stay in memory until its turn. */
function turn(queue: Pick<FairQueue<string>, 'add'>, token: string, left: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      withdraw();
      reject(left.reason as Error);
    };
    const withdraw = queue.add(token, () => {
      left.removeEventListener('abort', leave);
      resolve();
    });
    left.addEventListener('abort', leave, { once: true });
  });
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) work();
    isDone = true;
  };
}
