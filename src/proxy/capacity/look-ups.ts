import type { KeyDirectory, LookupResult } from '../../accounts/key-directory.ts';

/**
 * Limits pending look-ups of keys that are not cached, because until they end, guesses cannot be distinguished from
 * valid keys. Clients with too many guesses share a few look-ups and take turns. Cached keys are never limited.
 */
export class LookUps {
  #limit = 0;
  #suspectLimit = 0;
  #pending = 0;
  #suspectPending = 0;
  /** Look-ups of suspects that wait for their turn. */
  readonly #queue: (() => void)[] = [];

  constructor(inFlight: number) {
    this.resize(inFlight);
  }

  /**
   * Look-ups may be pending for a quarter of the requests that may be in flight, at least two; an eighth of them, at least one,
   * may be those of suspects.
   */
  resize(inFlight: number): void {
    this.#limit = Math.max(2, Math.floor(inFlight / 4));
    this.#suspectLimit = Math.max(1, Math.floor(this.#limit / 8));
  }

  /** @param isSuspect called only if the key is not cached */
  find(directory: KeyDirectory, hash: string, isSuspect: () => boolean): LookupResult | Promise<LookupResult> {
    if (directory.holds(hash)) return directory.find(hash);
    return isSuspect() ? this.#findForSuspect(directory, hash) : this.#ask(directory, hash);
  }

  async #findForSuspect(directory: KeyDirectory, hash: string): Promise<LookupResult> {
    if (this.#suspectPending >= this.#suspectLimit) {
      if (this.#queue.length >= this.#limit) return 'unavailable';
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    } else {
      this.#suspectPending += 1;
    }
    try {
      return await this.#ask(directory, hash);
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#suspectPending -= 1;
      else next();
    }
  }

  async #ask(directory: KeyDirectory, hash: string): Promise<LookupResult> {
    if (this.#pending >= this.#limit) return 'unavailable';
    this.#pending += 1;
    try {
      return await directory.find(hash);
    } finally {
      this.#pending -= 1;
    }
  }
}
