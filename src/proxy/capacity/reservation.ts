import { anonymous, type Budgets, type Claim, type LimitName, type Shortage } from './budgets.ts';

/** What one request has taken of the budgets. */
export class Reservation {
  readonly #budgets: Budgets;
  #claim: Claim;
  #slot: Claim | undefined;
  #bytes = 0;
  #bytesClaim: Claim = anonymous.none;
  /** The limit that the request exceeded, and why. */
  exceeded: { readonly limit: LimitName; readonly shortage: Shortage } | undefined;

  constructor(budgets: Budgets, claim: Claim) {
    this.#budgets = budgets;
    this.#claim = claim;
  }

  /** Sets who is billed from now on. */
  identify(claim: Claim): void {
    this.#claim = claim;
  }

  get holdsSlot(): boolean {
    return this.#slot !== undefined;
  }

  /** Takes a place in flight unless the request has one; false if none is left. */
  takeSlot(claim = this.#claim): boolean {
    if (this.#slot !== undefined) return true;
    if (!this.#take('inFlight', 1, claim)) return false;
    this.#slot = claim;
    return true;
  }

  leaveSlot(): void {
    const slot = this.#slot;
    this.#slot = undefined;
    if (slot !== undefined) this.#budgets.giveSlot(slot);
  }

  /** Takes bytes, all billed to whom the first were; false if they are not available. */
  hold(bytes: number): boolean {
    if (this.#bytes === 0) this.#bytesClaim = this.#claim;
    if (!this.#take('buffered', bytes, this.#bytesClaim)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Gives bytes back, by default all. */
  release(bytes = this.#bytes): void {
    const released = Math.min(bytes, this.#bytes);
    if (released > 0) this.#budgets.buffered.give(released, this.#bytesClaim);
    this.#bytes -= released;
  }

  #take(limit: LimitName, amount: number, claim: Claim): boolean {
    const shortage = this.#budgets[limit].take(amount, claim);
    if (shortage !== undefined) this.exceeded = { limit, shortage };
    return shortage === undefined;
  }
}
