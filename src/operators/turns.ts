/** Work of one owner is done one at a time, so that an owner with much of it leaves room for others. */
export class Turns {
  /** When the last work of each owner is over. */
  readonly #last = new Map<string, Promise<void>>();

  /** @param left work that has not begun when this aborts is not done: then this throws the signal's reason */
  async take<T>(owner: string, left: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(owner);
    const own = Promise.withResolvers<void>();
    this.#last.set(owner, own.promise);
    try {
      // A request that has left must not stay in memory until its turn.
      await Promise.race([before, rejectWhen(left)]);
      left.throwIfAborted();
      return await work();
    } finally {
      const over = (): void => {
        own.resolve();
        if (this.#last.get(owner) === own.promise) this.#last.delete(owner);
      };
      if (before === undefined) over();
      else void before.then(over);
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
