/** Counts the bytes that are held for requests, up to a limit. */
export class ByteBudget {
  readonly #limit: () => number;
  #held = 0;

  /** @param limit in bytes; called for each piece, because the configuration may change */
  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /** Whether there was room for more bytes, which are then held until they are released. */
  hold(bytes: number): boolean {
    if (this.#held + bytes > this.#limit()) return false;
    this.#held += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#held -= bytes;
  }
}
