/** Maximum number of notes kept while they cannot be written. Further ones are dropped. */
const maxNotes = 100_000;

/** Notes that wait to be written, one for each id. */
export class Notes<T> {
  readonly #merge: (earlier: T, later: T) => T;
  #notes = new Map<string, T>();

  /** @param merge makes one of two notes for the same id; by default the later one counts */
  constructor(merge = (_earlier: T, later: T): T => later) {
    this.#merge = merge;
  }

  add(id: string, note: T): void {
    const earlier = this.#notes.get(id);
    if (earlier !== undefined) this.#notes.set(id, this.#merge(earlier, note));
    else if (this.#notes.size < maxNotes) this.#notes.set(id, note);
  }

  /**
   * Passes the notes to `write`, some at a time. If it rejects, those that were not written are kept for the next attempt, and it is
   * rethrown.
   */
  async write(write: (notes: ReadonlyMap<string, T>) => Promise<void>, atOnce = maxNotes): Promise<void> {
    const left = [...this.#notes];
    this.#notes = new Map();
    try {
      while (left.length > 0) {
        await write(new Map(left.slice(0, atOnce)));
        left.splice(0, atOnce);
      }
    } catch (error) {
      const later = this.#notes;
      this.#notes = new Map(left);
      for (const [id, note] of later) this.add(id, note);
      throw error;
    }
  }
}
