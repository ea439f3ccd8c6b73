/** Counts the bytes that are held for requests, up to a limit. One owner may hold at most half of the limit. */
export class ByteBudget {
  readonly #limit: () => number;
  readonly #held = new Map<string, number>();
  #total = 0;

  /** @param limit returns the limit in bytes; called for each piece, because the configuration may change */
  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /** Charges bytes to an owner until they are released. Returns false, and charges nothing, if there is no room for them. */
  hold(bytes: number, owner: string): boolean {
    const limit = this.#limit();
    const held = (this.#held.get(owner) ?? 0) + bytes;
    if (this.#total + bytes > limit || held > limit / 2) return false;
    this.#total += bytes;
    this.#held.set(owner, held);
    return true;
  }

  release(bytes: number, owner: string): void {
    const held = (this.#held.get(owner) ?? 0) - bytes;
    this.#total -= bytes;
    if (held > 0) this.#held.set(owner, held);
    else this.#held.delete(owner);
  }
}
