import { LRUCache } from 'lru-cache';
import type { Limits } from '../config/config.ts';
import type { ClientConnection } from './client-connection.ts';

/** Who is charged, so that neither requests without a key nor public keys can keep secret keys out. */
export type Claimant = 'keyless' | 'public' | 'secret';

/** A resource shared by all requests. Requests without a secret key may use only a part of it. */
export class Budget {
  readonly #used = { keyless: 0, public: 0, secret: 0 };
  /** The parts of the total. Secret keys may use all of it. */
  #parts = { keyless: 0, public: 0, secret: 0 };

  /** Sets the total; amounts in use stay in use. @param least the smallest part */
  resize(size: number, least: number): void {
    this.#parts = {
      keyless: Math.max(least, Math.floor(size / 8)),
      public: Math.max(least, Math.floor(size / 2)),
      secret: size,
    };
  }

  /** Takes `amount` if it is available. The caller must release it. */
  take(amount: number, by: Claimant): boolean {
    if (this.used + amount > this.#parts.secret || this.#used[by] + amount > this.#parts[by]) return false;
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
  /** Requests in progress. */
  readonly slots = new Budget();
  /** Bytes of bodies in memory. */
  readonly bytes = new Budget();

  constructor(limits: Limits) {
    this.resize(limits);
  }

  resize({ inFlight, buffered, requestBody }: Limits): void {
    this.slots.resize(inFlight, 1);
    // At least enough for one body.
    this.bytes.resize(buffered, requestBody);
  }
}

/** The parts of the budgets that one request has taken. */
export class Reservation {
  readonly #budgets: Budgets;
  readonly #connection: ClientConnection;
  #claimant: Claimant = 'keyless';
  /** The limit that the request exceeded. */
  exceeded: 'inFlight' | 'buffered' | undefined;
  #slotOf: Claimant | undefined;
  #bytes = 0;
  #bytesOf: Claimant | undefined;

  constructor(budgets: Budgets, connection: ClientConnection) {
    this.#budgets = budgets;
    this.#connection = connection;
  }

  /** Sets who is charged from now on. */
  identify(claimant: Claimant): void {
    this.#claimant = claimant;
    this.#connection.identify(claimant === 'secret');
  }

  /** Takes a slot if the request has none yet; false if none is left. */
  takeSlot(by: Claimant = this.#claimant): boolean {
    if (this.#slotOf !== undefined) return true;
    if (!this.#budgets.slots.take(1, by)) {
      this.exceeded = 'inFlight';
      return false;
    }
    this.#slotOf = by;
    this.#connection.preventEviction();
    return true;
  }

  leaveSlot(): void {
    if (this.#slotOf !== undefined) this.#budgets.slots.give(1, this.#slotOf);
    this.#slotOf = undefined;
    this.#connection.allowEviction();
  }

  /** Takes bytes, all charged to the first claimant; false if they are not available. */
  hold(bytes: number): boolean {
    const claimant = (this.#bytesOf ??= this.#claimant);
    if (!this.#budgets.bytes.take(bytes, claimant)) {
      this.exceeded = 'buffered';
      return false;
    }
    this.#bytes += bytes;
    return true;
  }

  /** Releases bytes, by default all. Those held after all were released are charged to who is identified then. */
  release(bytes = this.#bytes): void {
    const released = Math.min(bytes, this.#bytes);
    if (this.#bytesOf !== undefined) this.#budgets.bytes.give(released, this.#bytesOf);
    this.#bytes -= released;
    if (this.#bytes === 0) this.#bytesOf = undefined;
  }
}

/** The most subjects that are remembered. The least recently used are dropped first. */
const remembered = 10_000;

/** Counts failures by subject in windows of fixed length, in bounded memory. */
export class FailureLimiter {
  readonly #failures = new LRUCache<string, { count: number; readonly until: number }>({ max: remembered });

  /**
   * @param limit failures in a window that still get their own response
   * @param now   milliseconds of any monotonic clock, here and below
   * @returns seconds until the subject may try again, or undefined within its limit
   */
  limited(subject: string, limit: number, now: number): number | undefined {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until || failures.count < limit) return undefined;
    return Math.ceil((failures.until - now) / 1_000);
  }

  /** Counts one failure; the first opens a window of `window` milliseconds. */
  failed(subject: string, window: number, now: number): void {
    const failures = this.#failures.get(subject);
    if (failures === undefined || now >= failures.until) this.#failures.set(subject, { count: 1, until: now + window });
    else failures.count += 1;
  }
}
