/** The limits that are shared by all requests. */
export type LimitName = 'connections' | 'inFlight' | 'buffered';

/** Why a budget is exhausted, for the log and the metrics: as a whole, or for a tier, the test environment or an account. */
export type Shortage = 'total' | 'anonymous' | 'public' | 'test' | 'account';

/** An amount of each limit, by its index: requests would pay for names. */
export type Amounts = [number, number, number];
export const indexes = { connections: 0, inFlight: 1, buffered: 2 } as const satisfies Record<LimitName, keyof Amounts>;
export type LimitIndex = (typeof indexes)[LimitName];

export const newAmounts = (): Amounts => [0, 0, 0];

/**
 * A share of what others leave of a whole. Those who take all they can get leave some to the next one, which gets the same share of that;
 * with quotas alone, a few would have all. The dynamic threshold of Choudhury and Hahne (1998) for the buffers of a switch.
 */
export interface FairShare {
  readonly whole: Part;
  /** Between 0 and 1. */
  readonly share: () => number;
  /** What they may have of each limit in any case, if it is there: one body must always fit. */
  readonly least: Readonly<Amounts>;
  /** Of a smaller whole they have their quota: most shares would be less than one. By default 32. */
  readonly minWhole: number | undefined;
}

/** The share of strangers, who are in no such whole: it is left besides. */
export const strangersShare = 1 / 8;

/** A part of the budgets that some requests share. */
export class Part {
  /** Why it is exhausted. */
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

  /** What must be given back for them to have more: of a fair share, any of its whole. */
  get source(): Part {
    return this.#fairShare?.whole ?? this;
  }

  /**
   * Whether they may have so much more. Those who have nothing get what is there.
   *
   * @param uncounted what others have taken of the whole that does not count against them
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
    return Math.max(least[limit], share() * (size - others / (1 - strangersShare)));
  }
}
