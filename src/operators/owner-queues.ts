/** An owner rests for this many times as long as its work took: work may be synchronous, and merchants wait meanwhile. */
const restFactor = 3;

/** Maximum rest, in milliseconds. A much shorter one than the work would let one owner keep merchants waiting. */
const maxRest = 1_000;

/** Work of one owner is done one at a time, with rests, so that an owner with much of it leaves room for others. */
export class OwnerQueues {
  /** When the last work of each owner is over. */
  readonly #last = new Map<string, Promise<void>>();

  /**
   * @param left work that has not begun when this aborts is not done: then this throws the signal's reason
   * @param maxWait after so many milliseconds the owner's next work begins beside this one. Undefined: when this one is over
   */
  async run<T>(owner: string, left: AbortSignal, work: () => Promise<T>, maxWait?: number): Promise<T> {
    const before = this.#last.get(owner);
    const own = Promise.withResolvers<void>();
    this.#last.set(owner, own.promise);
    const over = (): void => {
      own.resolve();
      if (this.#last.get(owner) === own.promise) this.#last.delete(owner);
    };
    try {
      // A request that has left must not stay in memory until its turn.
      await Promise.race([before, rejectWhen(left)]);
      left.throwIfAborted();
    } catch (error) {
      void (before ?? Promise.resolve()).then(over);
      throw error;
    }
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
}

function rejectWhen(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}
