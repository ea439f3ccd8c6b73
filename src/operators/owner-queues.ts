import { FairQueue } from '../fair-queue.ts';
import { FairTickQueue } from '../tick-queue.ts';

/** How long an owner pauses, as a multiple of the time that its work took. Synchronous work could otherwise keep merchants waiting. */
const restFactor = 3;

/**
 * Maximum pause, in milliseconds. With a much lower maximum, pauses would be too short after long work, and one owner could keep merchants
 * waiting.
 */
const maxRest = 1_000;

/** After this many milliseconds, the next work in a lane begins even if the current work is still in progress. */
const maxTimeInLane = 3_000;

/** The owner of a piece of work. */
export interface Owner {
  /** Identifies the owner and, usually, the operation. */
  readonly queue: string;
  /** The hash of the token. The tokens of an owner take turns. */
  readonly token: string;
  /**
   * Whether there may be any number of such owners, as with viewers and accounts. The work of all such owners begins one piece at a time,
   * and takes at most a quarter of the event loop's time before its first wait.
   */
  readonly isOneOfMany: boolean;
  /** Work in the same lane runs one piece at a time. Undefined if the work waits for no lane. */
  readonly lane?: string | undefined;
}

/**
 * Does the work of each owner one piece at a time, with pauses in between, so that an owner with a lot of work does not delay merchants and
 * other owners.
 */
export class OwnerQueues {
  /**
   * For each owner and each lane, the work that waits because other work of the owner or in the lane is in progress, or because the owner
   * pauses. Tokens take turns.
   */
  readonly #waiting = new Map<string, FairQueue<string>>();
  readonly #ofMany = new FairTickQueue<string>(1);

  /**
   * @param left if this signal aborts before the work has begun, the work is not done and the signal's reason is thrown
   * @param maxWait milliseconds after which the owner's next piece of work begins even if this one is still in progress. Undefined: the
   *   next piece waits until this one is done
   */
  run<T>(
    { queue, token, isOneOfMany, lane }: Owner,
    left: AbortSignal,
    work: () => Promise<T>,
    maxWait?: number,
  ): Promise<T> {
    const begin = isOneOfMany ? () => this.#runOfMany(token, left, work) : work;
    const inLane = lane === undefined ? begin : () => this.#runInTurn(lane, token, left, begin, false, maxTimeInLane);
    return this.#runInTurn(queue, token, left, inLane, true, maxWait);
  }

  /** Does the work of a queue one piece at a time. @param rests whether the queue pauses after the work */
  async #runInTurn<T>(
    queue: string,
    token: string,
    left: AbortSignal,
    work: () => Promise<T>,
    rests: boolean,
    maxWait?: number,
  ): Promise<T> {
    left.throwIfAborted();
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) this.#waiting.set(queue, new FairQueue());
    else await turn((start) => waiting.add(token, start), left);
    const over = once(() => this.#startNext(queue));
    const began = performance.eventLoopUtilization();
    const passOn = maxWait === undefined ? undefined : setTimeout(over, maxWait).unref();
    try {
      return await work();
    } finally {
      clearTimeout(passOn);
      // Only the time in which the process was busy counts, because work that waits for the database does not delay merchants.
      const { active } = performance.eventLoopUtilization(began);
      if (rests) setTimeout(over, Math.min(maxRest, restFactor * active)).unref();
      else over();
    }
  }

  async #runOfMany<T>(token: string, left: AbortSignal, work: () => Promise<T>): Promise<T> {
    const turns = this.#ofMany.of(token);
    await turn((start) => turns.add(start), left);
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

/**
 * Waits for a turn. If the client leaves, the wait ends at once, so that the request does not stay in memory until its turn.
 *
 * @param add adds work to a queue and returns a function that withdraws it
 * @param left if this signal aborts before the turn, its reason is thrown
 */
export function turn(add: (start: () => void) => () => void, left: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      withdraw();
      reject(left.reason as Error);
    };
    const withdraw = add(() => {
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
