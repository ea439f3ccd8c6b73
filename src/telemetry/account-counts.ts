import type { RefusalCode } from '../errors.ts';
import { sum } from './key-uses.ts';
import { MinuteRing } from './minute-ring.ts';
import type { EpochMs } from '../times.ts';

/** Counts of one account in one environment over the last ten minutes. */
export interface AccountCount {
  readonly account: string;
  readonly requests: number;
  readonly refusals: number;
  /** Envelopes that were opened. */
  readonly opened: number;
  /** Envelopes that could not be opened. */
  readonly unopened: number;
  /** Bodies that were refused without being opened, because they are not envelopes or are for other credentials. */
  readonly unread: number;
  /** Envelopes that were sent although the account does not encrypt. */
  readonly unexpected: number;
  /** Refusals by code. Codes without refusals are left out. */
  readonly codes: ReadonlyMap<RefusalCode, number>;
}

const minutes = 10;

/** Maximum number of accounts counted. */
const maxAccounts = 10_000;

const kinds = ['requests', 'refusals', 'opened', 'unopened', 'unread', 'unexpected'] as const;
type Kind = (typeof kinds)[number];

/** The counters of an account, with one count for each minute. */
type Counters = Readonly<Record<Kind, number[]>> & { readonly codes: Map<RefusalCode, number[]> };

/** Counts requests by account over the last ten minutes. */
export class AccountCounts {
  readonly #byAccount = new Map<string, Counters>();
  readonly #ring = new MinuteRing(minutes, (slot) => this.#empty(slot));

  /** Counts one request. */
  add(
    account: string,
    code: RefusalCode | undefined,
    envelope: 'opened' | 'unopened' | 'unread' | 'unexpected' | undefined,
    now: EpochMs,
  ): void {
    const slot = this.#ring.at(now);
    let counts = this.#byAccount.get(account);
    if (counts === undefined) {
      if (this.#byAccount.size === maxAccounts) return;
      counts = { ...forEachKind(zeros), codes: new Map() };
      this.#byAccount.set(account, counts);
    }
    increment(counts.requests, slot);
    if (code !== undefined) countRefusal(counts, code, slot);
    if (envelope !== undefined) increment(counts[envelope], slot);
  }

  /** The counts of all accounts, in no particular order. */
  all(now: EpochMs): readonly AccountCount[] {
    this.#ring.at(now);
    return [...this.#byAccount].map(([account, counts]) => {
      const codes = new Map([...counts.codes].map(([code, numbers]) => [code, sum(numbers)]));
      return Object.assign(
        forEachKind((kind) => sum(counts[kind])),
        { account, codes },
      );
    });
  }

  /** The number of unexpected envelopes of one account. */
  unexpected(account: string, now: EpochMs): number {
    this.#ring.at(now);
    return sum(this.#byAccount.get(account)?.unexpected ?? []);
  }

  #empty(slot: number): void {
    for (const [account, counts] of this.#byAccount) {
      for (const kind of kinds) counts[kind][slot] = 0;
      for (const [code, numbers] of counts.codes) {
        numbers[slot] = 0;
        if (sum(numbers) === 0) counts.codes.delete(code);
      }
      if (sum(counts.requests) === 0) this.#byAccount.delete(account);
    }
  }
}

function countRefusal({ refusals, codes }: Counters, code: RefusalCode, slot: number): void {
  increment(refusals, slot);
  const numbers = codes.get(code) ?? zeros();
  increment(numbers, slot);
  codes.set(code, numbers);
}

function forEachKind<T>(value: (kind: Kind) => T): Record<Kind, T> {
  return Object.fromEntries(kinds.map((kind) => [kind, value(kind)])) as Record<Kind, T>;
}

function zeros(): number[] {
  return Array.from({ length: minutes }, () => 0);
}

function increment(numbers: number[], slot: number): void {
  numbers[slot] = (numbers[slot] ?? 0) + 1;
}
