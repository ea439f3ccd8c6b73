import type { Limits } from '../config/config.ts';
import type { ClientConnection } from './client-connection.ts';

/** On whose account something is taken: so that neither guests nor public keys can keep secret keys out. */
export type Claimant = 'keyless' | 'public' | 'secret';

/** What there is only so much of, over all requests, and how much of it the requests without a secret key may have. */
export class Budget {
  readonly #used = { keyless: 0, public: 0, secret: 0 };
  #size = 0;
  #shares = { keyless: 0, public: 0, secret: 0 };

  /** Sets how much there is in all; what is taken stays taken. @param least what the smallest share */
  resize(size: number, least: number): void {
    this.#size = size;
    this.#shares = {
      keyless: Math.max(least, Math.floor(size / 8)),
      public: Math.max(least, Math.floor(size / 2)),
      secret: size,
    };
  }

  /** Takes `amount` if it is left. What was taken must be given back. */
  take(amount: number, by: Claimant): boolean {
    if (this.used + amount > this.#size || this.#used[by] + amount > this.#shares[by]) return false;
    this.#used[by] += amount;
    return true;
  }

  give(amount: number, by: Claimant): void {
    this.#used[by] -= amount;
  }

  get used(): number {
    return this.#used.keyless + this.#used.public + this.#used.secret;
  }
}

export class Budgets {
  /** Requests that are worked on. */
  readonly slots = new Budget();
  /** Bytes of bodies. */
  readonly bytes = new Budget();

  constructor(limits: Limits) {
    this.resize(limits);
  }

  resize({ inFlight, buffered, requestBody }: Limits): void {
    this.slots.resize(inFlight, 1);
    // Room for one body at least.
    this.bytes.resize(buffered, requestBody);
  }
}

/** What one request has taken of the budgets. */
export class Reservation {
  readonly #budgets: Budgets;
  readonly #connection: ClientConnection;
  /** By the key that the request came with. */
  #claimant: Claimant = 'keyless';
  /** The limit that something was refused for. */
  lacks: 'inFlight' | 'buffered' | undefined;
  #slotOf: Claimant | undefined;
  #bytes = 0;
  #bytesOf: Claimant | undefined;

  constructor(budgets: Budgets, connection: ClientConnection) {
    this.#budgets = budgets;
    this.#connection = connection;
  }

  /** Says whose key the request came with, for what is taken from now on. */
  identify(claimant: Claimant): void {
    this.#claimant = claimant;
    this.#connection.known = true;
    this.#connection.keep();
  }

  /** Takes a slot, if it has none yet; false if there is none left. */
  takeSlot(by: Claimant = this.#claimant): boolean {
    if (this.#slotOf !== undefined) return true;
    if (!this.#budgets.slots.take(1, by)) {
      this.lacks = 'inFlight';
      return false;
    }
    this.#slotOf = by;
    this.#connection.keep();
    return true;
  }

  leaveSlot(): void {
    if (this.#slotOf !== undefined) this.#budgets.slots.give(1, this.#slotOf);
    this.#slotOf = undefined;
    this.#connection.rest();
  }

  /** Takes bytes, all on the account of the first claimant; false if there are not so many left. */
  hold(bytes: number): boolean {
    const claimant = (this.#bytesOf ??= this.#claimant);
    if (!this.#budgets.bytes.take(bytes, claimant)) {
      this.lacks = 'buffered';
      return false;
    }
    this.#bytes += bytes;
    return true;
  }

  /** Gives all bytes back. */
  release(): void {
    if (this.#bytesOf !== undefined) this.#budgets.bytes.give(this.#bytes, this.#bytesOf);
    this.#bytes = 0;
  }
}
