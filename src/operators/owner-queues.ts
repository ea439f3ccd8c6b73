import { FairQueue } from '../fair-queue.ts';

/** An owner rests for this many times as long as its work took: work may be synchronous, and merchants wait meanwhile. */
const restFactor = 3;

/** Maximum rest, in milliseconds. A rest much shorter than the work would let one owner keep merchants waiting. */
const maxRest = 1_000;

/** Work of one owner is done one at a time, with rests, so that an owner with much of it leaves room for others. */
export class OwnerQueues {
  /** The waiting work of owners whose work is in progress or who rest. The tokens of an owner take turns. */
  readonly #waiting = new Map<string, FairQueue<string>>();

  /**
   * @param left if this aborts before the work has begun, the work is not done and this throws the signal's reason
   * @param maxWait after this many milliseconds the owner's next work begins alongside this one. Undefined: when this one is over
   */
  async run<T>(owner: string, token: string, left: AbortSignal, work: () => Promise<T>, maxWait?: number): Promise<T> {
    left.throwIfAborted();
    const waiting = this.#waiting.get(owner);
    if (waiting === undefined) this.#waiting.set(owner, new FairQueue());
    else await turn(waiting, token, left);
    const over = once(() => this.#startNext(owner));
    const began = performance.eventLoopUtilization();
    const passOn = maxWait === undefined ? undefined : setTimeout(over, maxWait).unref();
    try {
      return await work();
    } finally {
      clearTimeout(passOn);
      // Only the time in which the process was busy: while work waits for the database, merchants do not wait.
      const { active } = performance.eventLoopUtilization(began);
      setTimeout(over, Math.min(maxRest, restFactor * active)).unref();
    }
  }

  #startNext(owner: string): void {
    const start = this.#waiting.get(owner)?.shift();
    if (start === undefined) this.#waiting.delete(owner);
    else start();
  }
}

/** Waits for a turn. A request whose client has left must not stay in memory until then. */
function turn(queue: FairQueue<string>, token: string, left: AbortSignal): Promise<void> {
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
