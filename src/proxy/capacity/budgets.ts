import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { Limits } from '../../config/config.ts';
import { LinkedList, type Linked } from '../../linked-list.ts';

/** Who sends a request, as far as that is proven. Quotas keep anonymous and public traffic from starving secret keys. */
export type Tier = 'anonymous' | 'public' | 'secret';

/** The limits that are shared by all requests. */
export type LimitName = 'connections' | 'inFlight' | 'buffered';

/** Why a budget is exhausted, for the log and the metrics: as a whole, or for a tier, the test environment or an account. */
export type Shortage = 'total' | 'anonymous' | 'public' | 'test' | 'account';

/** What one account uses in one environment. */
type AccountUse = Record<LimitName, number>;

/** Whom an amount is billed to. */
export interface Claim {
  readonly tier: Tier;
  readonly environment: EnvironmentName | undefined;
  /** Undefined before the account is known. */
  readonly account: AccountUse | undefined;
}

/** The claims of requests without a valid key, before and after their environment is known. */
export const anonymous: Readonly<Record<EnvironmentName | 'none', Claim>> = {
  none: { tier: 'anonymous', environment: undefined, account: undefined },
  test: { tier: 'anonymous', environment: 'test', account: undefined },
  live: { tier: 'anonymous', environment: 'live', account: undefined },
};

/** How much of a budget each party may use. */
interface Quotas {
  readonly anonymous: number;
  readonly public: number;
  readonly secret: number;
  readonly test: number;
  readonly account: number;
}

/** A resource shared by all requests, of which each tier, the test environment and each account may use a part. */
export class Budget {
  readonly #name: LimitName;
  readonly #used = { anonymous: 0, public: 0, secret: 0 };
  #usedByTest = 0;
  #quotas: Quotas = { anonymous: 0, public: 0, secret: 0, test: 0, account: 0 };

  constructor(name: LimitName) {
    this.#name = name;
  }

  /** Sets the quotas; what is in use stays in use. */
  resize(quotas: Quotas): void {
    this.#quotas = quotas;
  }

  get used(): number {
    return this.#used.anonymous + this.#used.public + this.#used.secret;
  }

  /** Takes `amount` if it is available; otherwise says why it is not. The caller must give it back with the same claim. */
  take(amount: number, { tier, environment, account }: Claim): Shortage | undefined {
    const quotas = this.#quotas;
    if (this.used + amount > quotas.secret) return 'total';
    if (tier !== 'secret' && this.#used[tier] + amount > quotas[tier]) return tier;
    if (environment === 'test' && this.#usedByTest + amount > quotas.test) return 'test';
    if (account !== undefined) {
      if (account[this.#name] + amount > quotas.account) return 'account';
      account[this.#name] += amount;
    }
    if (environment === 'test') this.#usedByTest += amount;
    this.#used[tier] += amount;
    return undefined;
  }

  give(amount: number, { tier, environment, account }: Claim): void {
    this.#used[tier] -= amount;
    if (environment === 'test') this.#usedByTest -= amount;
    if (account !== undefined) account[this.#name] -= amount;
  }
}

/** The claims of one account in one environment. */
interface AccountClaims {
  readonly account: AccountUse;
  readonly public: Claim;
  readonly secret: Claim;
}

/** Milliseconds between two removals of accounts that use nothing. */
const sweepInterval = 60_000;

/** A request that waits for a place in flight. */
class WaitingRequest implements Linked<WaitingRequest> {
  previous: WaitingRequest | undefined;
  next: WaitingRequest | undefined;
  /** Takes a place; false if there is none. */
  readonly takeSlot: () => boolean;
  readonly start: () => void;

  constructor(takeSlot: () => boolean, start: () => void) {
    this.takeSlot = takeSlot;
    this.start = start;
  }
}

/** Starts the request that has waited longest, if there is a place for it; it must not throw. */
function startFirst(list: LinkedList<WaitingRequest>): boolean {
  const { first } = list;
  if (first?.takeSlot() !== true) return false;
  list.remove(first);
  first.start();
  return true;
}

/** The budgets of all requests, and what each account uses of them. */
export class Budgets {
  readonly connections = new Budget('connections');
  /** Requests in progress. */
  readonly inFlight = new Budget('inFlight');
  /** Bytes of requests and responses in memory. */
  readonly buffered = new Budget('buffered');
  /** In the order in which they came; live ones do not wait behind test ones. The caller charges the memory of each. */
  readonly #waiting: Readonly<Record<EnvironmentName, LinkedList<WaitingRequest>>> = {
    test: new LinkedList(),
    live: new LinkedList(),
  };
  #isStarting = false;
  readonly #accounts: Readonly<Record<EnvironmentName, Map<string, AccountClaims>>> = {
    test: new Map(),
    live: new Map(),
  };
  readonly #sweep: NodeJS.Timeout;

  /** @param servesBoth whether there is a live environment to protect from the test environment */
  constructor(limits: Limits, servesBoth: boolean) {
    this.resize(limits, servesBoth);
    // Not at the end of each request: an entry for each request would promote them all to the old generation.
    this.#sweep = setInterval(() => this.#forgetIdle(), sweepInterval).unref();
  }

  resize({ connections, inFlight, buffered, requestBody, account: share }: Limits, servesBoth: boolean): void {
    const quotas = (size: number, min: number, anonymousPart: number, publicPart: number): Quotas => {
      const part = (fraction: number): number => Math.max(min, Math.floor(size * fraction));
      return {
        anonymous: part(anonymousPart),
        public: part(publicPart),
        secret: size,
        test: servesBoth ? part(1 / 2) : size,
        account: part(share),
      };
    };
    // A connection without a known key can be evicted, so that anonymous ones may use all that nobody else needs.
    this.connections.resize(quotas(connections, 1, 1, 1));
    this.inFlight.resize(quotas(inFlight, 1, 1 / 8, 1 / 2));
    // At least enough for one body.
    this.buffered.resize(quotas(buffered, requestBody, 1 / 8, 1 / 2));
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  /**
   * Has a request wait for a place in flight.
   *
   * @param takeSlot takes a place; false if there is none
   * @param start    called once it is taken
   * @returns a function that ends the wait
   */
  waitForSlot(environment: EnvironmentName, takeSlot: () => boolean, start: () => void): () => void {
    const waiting = new WaitingRequest(takeSlot, start);
    const list = this.#waiting[environment];
    list.add(waiting);
    return () => list.remove(waiting);
  }

  /** Gives a place in flight back, which the first request that waits may take. */
  giveSlot(claim: Claim): void {
    this.inFlight.give(1, claim);
    // One that starts may end at once, and call this: its place is for the next turn of the loop.
    if (this.#isStarting) return;
    this.#isStarting = true;
    let hasStarted = true;
    while (hasStarted) hasStarted = startFirst(this.#waiting.live) || startFirst(this.#waiting.test);
    this.#isStarting = false;
  }

  /** The claim of an account in an environment; the same object each time. */
  claim(environment: EnvironmentName, accountId: string, tier: 'public' | 'secret'): Claim {
    const accounts = this.#accounts[environment];
    let claims = accounts.get(accountId);
    if (claims === undefined) {
      const account = { connections: 0, inFlight: 0, buffered: 0 };
      claims = {
        account,
        public: { tier: 'public', environment, account },
        secret: { tier: 'secret', environment, account },
      };
      accounts.set(accountId, claims);
    }
    return claims[tier];
  }

  #forgetIdle(): void {
    for (const accounts of Object.values(this.#accounts)) {
      for (const [id, { account }] of accounts) {
        if (account.connections + account.inFlight + account.buffered === 0) accounts.delete(id);
      }
    }
  }
}

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

  /**
   * Has the request wait for a place in flight.
   *
   * @returns a function that ends the wait
   */
  waitForSlot(environment: EnvironmentName, start: () => void): () => void {
    return this.#budgets.waitForSlot(environment, () => this.takeSlot(), start);
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
