/** Maximum number of values kept while they cannot be written. Further values are dropped. */
const maxEntries = 100_000;

/** Values that wait to be written, one for each id. */
export class WriteBehindBuffer<T> {
  readonly #merge: (earlier: T, later: T) => T;
  #entries = new Map<string, T>();

  /** @param merge combines two values for the same id into one; by default, the later value is kept */
  constructor(merge = (_earlier: T, later: T): T => later) {
    this.#merge = merge;
  }

  add(id: string, value: T): void {
    const earlier = this.#entries.get(id);
    if (earlier !== undefined) this.#entries.set(id, this.#merge(earlier, value));
    else if (this.#entries.size < maxEntries) this.#entries.set(id, value);
  }

  /**
   * Passes the values to `write` in batches. If `write` rejects, the values not yet written are kept for the next attempt, and the error is
   * rethrown.
   */
  async write(write: (entries: ReadonlyMap<string, T>) => Promise<void>, atOnce = maxEntries): Promise<void> {
    const left = [...this.#entries];
    this.#entries = new Map();
    try {
      while (left.length > 0) {
        await write(new Map(left.slice(0, atOnce)));
        left.splice(0, atOnce);
      }
    } catch (error) {
      const later = this.#entries;
      this.#entries = new Map(left);
      for (const [id, value] of later) this.add(id, value);
      throw error;
    }
  }
}
