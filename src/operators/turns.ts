/** Work of one owner is done one at a time, so that an owner with much of it leaves room for others. */
export class Turns {
  /** When the last work of each owner is over. */
  readonly #last = new Map<string, Promise<void>>();

  async take<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(owner);
    const own = Promise.withResolvers<void>();
    this.#last.set(owner, own.promise);
    await before;
    try {
      return await work();
    } finally {
      own.resolve();
      if (this.#last.get(owner) === own.promise) this.#last.delete(owner);
    }
  }
}
