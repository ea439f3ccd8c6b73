/** The most notes that are kept while they cannot be written. Further ones are dropped. */
const maxNotes = 100_000;

/** Notes that wait to be written, the latest for each id. */
export class Notes<T> {
  #notes = new Map<string, T>();

  add(id: string, note: T): void {
    if (this.#notes.size < maxNotes || this.#notes.has(id)) this.#notes.set(id, note);
  }

  /** Passes the notes to `write`, unless there are none. If it rejects, they are kept for the next attempt, and it is rethrown. */
  async write(write: (notes: ReadonlyMap<string, T>) => Promise<void>): Promise<void> {
    const notes = this.#notes;
    if (notes.size === 0) return;
    this.#notes = new Map();
    try {
      await write(notes);
    } catch (error) {
      // Notes that were made meanwhile take precedence.
      this.#notes = new Map([...notes, ...this.#notes]);
      throw error;
    }
  }
}
