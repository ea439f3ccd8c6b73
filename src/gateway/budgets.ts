import type { Limits } from '../config/config.ts';

/** What there is only so much of, over all requests. */
export class Budget {
  #size: number;
  #free: number;

  constructor(size: number) {
    this.#size = size;
    this.#free = size;
  }

  /** Sets how much there is in all; what is taken stays taken. */
  resize(size: number): void {
    this.#free += size - this.#size;
    this.#size = size;
  }

  /** Takes `amount` if it is left. What was taken must be given back. */
  take(amount: number): boolean {
    if (amount > this.#free) return false;
    this.#free -= amount;
    return true;
  }

  give(amount: number): void {
    this.#free += amount;
  }

  get used(): number {
    return this.#size - this.#free;
  }
}

export interface Budgets {
  /** Requests that are worked on. */
  readonly places: Budget;
  /** Bytes of bodies held for requests whose key is known. */
  readonly identified: Budget;
  /** The same for the rest, few, or whoever has no key could use up the others'. */
  readonly keyless: Budget;
}

export function budgetsOf(limits: Limits): Budgets {
  return {
    places: new Budget(limits.inFlight),
    identified: new Budget(limits.buffered),
    keyless: new Budget(keylessShare(limits)),
  };
}

export function resizeBudgets({ places, identified, keyless }: Budgets, limits: Limits): void {
  places.resize(limits.inFlight);
  identified.resize(limits.buffered);
  keyless.resize(keylessShare(limits));
}

/** What one request has taken of the budgets: a place from its beginning, bytes as it holds them. */
export class Share {
  readonly #budgets: Budgets;
  #hasPlace: boolean;
  #bytes = 0;
  #bytesOf: 'identified' | 'keyless' = 'keyless';

  constructor(budgets: Budgets) {
    this.#budgets = budgets;
    this.#hasPlace = budgets.places.take(1);
  }

  /** False from the beginning where too many were in flight. */
  get hasPlace(): boolean {
    return this.#hasPlace;
  }

  leavePlace(): void {
    if (this.#hasPlace) this.#budgets.places.give(1);
    this.#hasPlace = false;
  }

  /** Takes bytes, always of the same budget; false where there are not so many left. */
  hold(bytes: number, of: 'identified' | 'keyless'): boolean {
    if (!this.#budgets[of].take(bytes)) return false;
    this.#bytesOf = of;
    this.#bytes += bytes;
    return true;
  }

  /** Gives all bytes back. */
  release(): void {
    this.#budgets[this.#bytesOf].give(this.#bytes);
    this.#bytes = 0;
  }
}

/** An eighth, but room for one body at least. */
function keylessShare({ buffered, requestBody }: Limits): number {
  return Math.max(requestBody, Math.floor(buffered / 8));
}
