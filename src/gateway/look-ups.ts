import type { Directory, Found } from '../accounts/directory.ts';

/**
 * Bounds the look-ups that have to be waited for, because the directory does not hold the key: guesses cannot be told
 * from good keys before. Clients that have guessed too often compete for a few of them, and wait for their turn. What is
 * held is found at once, whatever guesses do.
 */
export class LookUps {
  #limit = 0;
  #suspectLimit = 0;
  #pending = 0;
  #suspectPending = 0;
  /** Suspects that wait for their turn. */
  readonly #queue: (() => void)[] = [];

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /** A quarter of the requests in flight may wait for look-ups, and an eighth of those may be suspects'; one at least. */
  resize(inFlight: number): void {
    this.#limit = Math.max(2, Math.floor(inFlight / 4));
    this.#suspectLimit = Math.max(1, Math.floor(this.#limit / 8));
  }

  /** @param isSuspect asked only if the look-up has to be waited for */
  find(directory: Directory, hash: string, isSuspect: () => boolean): Found | Promise<Found> {
    if (directory.holds(hash)) return directory.find(hash);
    return isSuspect() ? this.#findForSuspect(directory, hash) : this.#ask(directory, hash);
  }

  async #findForSuspect(directory: Directory, hash: string): Promise<Found> {
    if (this.#suspectPending >= this.#suspectLimit) {
      if (this.#queue.length >= this.#limit) return 'unavailable';
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    } else {
      this.#suspectPending += 1;
    }
    try {
      return await this.#ask(directory, hash);
    } finally {
      // The turn is handed on, or over.
      const next = this.#queue.shift();
      if (next === undefined) this.#suspectPending -= 1;
      else next();
    }
  }

  async #ask(directory: Directory, hash: string): Promise<Found> {
    if (this.#pending >= this.#limit) return 'unavailable';
    this.#pending += 1;
    try {
      return await directory.find(hash);
    } finally {
      this.#pending -= 1;
    }
  }
}
