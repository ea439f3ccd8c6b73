/** The limits that are shared by all requests. */
export type LimitName = 'connections' | 'inFlight' | 'buffered';

/** Why a budget is exhausted, for the log and the metrics: as a whole, or for a tier, the test environment or an account. */
export type Shortage = 'total' | 'anonymous' | 'public' | 'test' | 'account';

/** An amount of each limit, by the limit's index: names would cost time in each request. */
export type Amounts = [number, number, number];
export const indexes = { connections: 0, inFlight: 1, buffered: 2 } as const satisfies Record<LimitName, keyof Amounts>;
export type LimitIndex = (typeof indexes)[LimitName];

export const newAmounts = (): Amounts => [0, 0, 0];

/**
 * A share of what others leave of a whole. Those who take all they can get leave some to the next one, who gets the same share of the rest;
 * with quotas alone, a few would have everything. This is the dynamic threshold of Choudhury and Hahne (1998) for the buffers of a switch.
 */
export interface FairShare {
  readonly whole: Part;
  /** Between 0 and 1. */
  readonly share: () => number;
  /** How much of each limit they may have in any case, if it is available: one body must always fit. */
  readonly least: Readonly<Amounts>;
  /** If the whole is smaller, they have their quota instead, because most shares would be less than one. By default 32. */
  readonly minWhole: number | undefined;
}

/** The share of strangers, who are not part of such a whole: it is left free in addition. */
export const anonymousShare = 1 / 8;

/** The fraction of strangers' bytes that incomplete heads, which may be of merchants, leave to what waits or is not read. */
export const besideHeads = 3 / 4;

/** A part of the budgets that some requests share. */
export class Part {
  /** The reason to give if it is exhausted. */
  readonly shortage: Shortage;
  /** How much of each budget they may use together; the configuration may change it. */
  readonly quotas: Readonly<Amounts>;
  readonly used: Amounts = [0, 0, 0];
  readonly #fairShare: FairShare | undefined;

  /** @param fairShare undefined: they may have their quota whatever others hold */
  constructor(shortage: Shortage, quotas: Readonly<Amounts>, fairShare?: FairShare) {
    this.shortage = shortage;
    this.quotas = quotas;
    this.#fairShare = fairShare;
  }

  /** The part of which something must be given back for them to have more: for a fair share, its whole. */
  get source(): Part {
    return this.#fairShare?.whole ?? this;
  }

  /**
   * Whether they may have this much more. Those who have nothing get what is available.
   *
   * @param uncounted how much of what others have taken of the whole does not count against them
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
