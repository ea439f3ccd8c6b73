/** The limits that are shared by all requests. */
export type LimitName = 'connections' | 'inFlight' | 'buffered';

/** What is exhausted, for the log and the metrics: the whole budget, or the part of a tier, of the test environment or of an account. */
export type Shortage = 'total' | 'anonymous' | 'public' | 'test' | 'account';

/** An amount of each limit, by the limit's index. Looking up property names would cost time in each request. */
export type Amounts = [number, number, number];
export const indexes = { connections: 0, inFlight: 1, buffered: 2 } as const satisfies Record<LimitName, keyof Amounts>;
export type LimitIndex = (typeof indexes)[LimitName];

export const newAmounts = (): Amounts => [0, 0, 0];

/**
 * A part's share of what the other parts of a whole leave. A part that takes all it can get leaves some for the next part, which gets the
 * same fraction of what is left. With quotas alone, a few parts could take everything. This is the dynamic threshold of Choudhury and Hahne
 * (1998) for the buffers of a switch.
 */
export interface FairShare {
  readonly whole: Part;
  /** Between 0 and 1. */
  readonly share: () => number;
  /** How much of each limit the part may use in any case, if it is available, because one body must always fit. */
  readonly least: Readonly<Amounts>;
  /** If the whole is smaller than this, only the part's quota applies, because most shares would be less than one. By default 32. */
  readonly minWhole: number | undefined;
}

/**
 * The share of requests without a valid key. Fair shares leave it free as well, because the whole that they divide excludes these requests.
 */
export const anonymousShare = 1 / 8;

/**
 * The fraction of the anonymous bytes that waiting requests and unread responses may use. The rest is left for incomplete heads, which may
 * be from merchants.
 */
export const besideHeads = 3 / 4;

/** A part of the budgets that some requests share. */
export class Part {
  /** The reason that is reported if the part is exhausted. */
  readonly shortage: Shortage;
  /** How much of each budget the part may use. A new configuration may change this. */
  readonly quotas: Readonly<Amounts>;
  readonly used: Amounts = [0, 0, 0];
  readonly #fairShare: FairShare | undefined;

  /** @param fairShare undefined if the part may use its quota whatever other parts use */
  constructor(shortage: Shortage, quotas: Readonly<Amounts>, fairShare?: FairShare) {
    this.shortage = shortage;
    this.quotas = quotas;
    this.#fairShare = fairShare;
  }

  /**
   * The part in which room must become free before this part may take more: the whole that this part has a fair share of or, if it has no
   * fair share, this part itself.
   */
  get source(): Part {
    return this.#fairShare?.whole ?? this;
  }

  /**
   * Whether the part may take `amount` more. A part that uses nothing may take whatever is available.
   *
   * @param uncounted the amount that other parts use of the whole without reducing this part's fair share
   */
  has(amount: number, limit: LimitIndex, uncounted = 0): boolean {
    const used = this.used[limit];
    return used + amount <= this.quotas[limit] && (used === 0 || used + amount <= this.#fairQuota(limit, uncounted));
  }

  #fairQuota(limit: LimitIndex, uncounted = 0): number {
    if (this.#fairShare === undefined) return Infinity;
    const { whole, share, least, minWhole = 32 } = this.#fairShare;
    if (whole.quotas[limit] < minWhole) return Infinity;
    const size = Math.min(whole.quotas[limit], whole.#fairQuota(limit));
    const others = whole.used[limit] - this.used[limit] - uncounted;
    return Math.max(least[limit], share() * (size - others / (1 - anonymousShare)));
  }
}
