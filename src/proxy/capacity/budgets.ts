import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { Limits } from '../../config/config.ts';
import { WaitQueue } from './queues.ts';

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
  /** The part of it that public keys use; undefined for other claims. */
  readonly publicUse: AccountUse | undefined;
}

/** The claims of requests without a valid key, before and after their environment is known. */
export const anonymous: Readonly<Record<EnvironmentName | 'none', Claim>> = {
  none: { tier: 'anonymous', environment: undefined, account: undefined, publicUse: undefined },
  test: { tier: 'anonymous', environment: 'test', account: undefined, publicUse: undefined },
  live: { tier: 'anonymous', environment: 'live', account: undefined, publicUse: undefined },
};

/** How much of a budget each party may use. */
interface Quotas {
  readonly anonymous: number;
  readonly public: number;
  readonly secret: number;
  readonly test: number;
  /** For public keys in test, which must not keep out its secret ones. */
  readonly testPublic: number;
  readonly account: number;
  /** For the public keys of an account: they must not keep out its secret ones. */
  readonly accountPublic: number;
}

/** How many connections may be closed for one amount. */
const maxEvictions = 8;

/** A resource shared by all requests, of which each tier, the test environment and each account may use a part. */
class Budget {
  readonly #name: LimitName;
  readonly #used = { anonymous: 0, public: 0, secret: 0 };
  #usedByTest = 0;
  #publicInTest = 0;
  #quotas: Quotas = { anonymous: 0, public: 0, secret: 0, test: 0, testPublic: 0, account: 0, accountPublic: 0 };

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

  /**
   * Takes `amount` if it is available; otherwise says why it is not. The caller must give it back with the same claim.
   *
   * @param makeRoom gives back what somebody without a valid key has taken; false if there is nothing
   */
  take(amount: number, claim: Claim, makeRoom?: () => boolean): Shortage | undefined {
    let shortage = this.shortage(amount, claim);
    // Those without a valid key use no share of public keys, of the test environment or of an account.
    for (let i = 0; i < maxEvictions && (shortage === 'total' || shortage === 'anonymous'); i += 1) {
      if (makeRoom?.() !== true) break;
      shortage = this.shortage(amount, claim);
    }
    if (shortage === undefined) this.#add(amount, claim);
    return shortage;
  }

  give(amount: number, claim: Claim): void {
    this.#add(-amount, claim);
  }

  /** Bills to another claim what was taken; if it is not available there, it stays where it is, even beyond a lowered limit. */
  move(amount: number, from: Claim, to: Claim): Shortage | undefined {
    this.#add(-amount, from);
    const shortage = this.shortage(amount, to);
    this.#add(amount, shortage === undefined ? to : from);
    return shortage;
  }

  /** Why `amount` is not available to a claim; undefined if it is. */
  shortage(amount: number, { tier, environment, account, publicUse }: Claim): Shortage | undefined {
    const quotas = this.#quotas;
    const name = this.#name;
    if (this.used + amount > quotas.secret) return 'total';
    if (tier !== 'secret' && this.#used[tier] + amount > quotas[tier]) return tier;
    if (environment === 'test' && this.#usedByTest + amount > quotas.test) return 'test';
    if (environment === 'test' && tier === 'public' && this.#publicInTest + amount > quotas.testPublic) return 'public';
    if (account !== undefined && account[name] + amount > quotas.account) return 'account';
    if (publicUse !== undefined && publicUse[name] + amount > quotas.accountPublic) return 'account';
    return undefined;
  }

  #add(amount: number, { tier, environment, account, publicUse }: Claim): void {
    this.#used[tier] += amount;
    if (environment === 'test') this.#usedByTest += amount;
    if (environment === 'test' && tier === 'public') this.#publicInTest += amount;
    if (account !== undefined) account[this.#name] += amount;
    if (publicUse !== undefined) publicUse[this.#name] += amount;
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

/** The budgets of all requests, and what each account uses of them. */
export class Budgets {
  readonly connections = new Budget('connections');
  /** Requests in progress. */
  readonly inFlight = new Budget('inFlight');
  /** Bytes of requests and responses in memory. */
  readonly buffered = new Budget('buffered');
  /** The requests that wait for a place in flight; each must take it when it starts. Live ones do not wait behind test ones. */
  readonly waiting = { live: new WaitQueue(), test: new WaitQueue() };
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
        testPublic: servesBoth ? part(publicPart / 2) : part(publicPart),
        account: part(share),
        accountPublic: part(share / 2),
      };
    };
    // A connection without a known key can be evicted, so that anonymous ones may use all that nobody else needs.
    this.connections.resize(quotas(connections, 1, 1, 1 / 2));
    this.inFlight.resize(quotas(inFlight, 1, 1 / 8, 1 / 2));
    // At least enough for one body.
    this.buffered.resize(quotas(buffered, requestBody, 1 / 8, 1 / 2));
    this.#startWaiting();
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  /** Gives a place in flight back, which the first request that waits may take. */
  giveSlot(claim: Claim): void {
    this.inFlight.give(1, claim);
    this.#startWaiting();
  }

  #startWaiting(): void {
    // One that starts may end at once, and call this: its place is for the next turn of the loop.
    if (this.#isStarting) return;
    this.#isStarting = true;
    while (this.#startFirst('live') || this.#startFirst('test'));
    this.#isStarting = false;
  }

  /** Starts the request that has waited longest, if there is a place for it. Only those without a key wait. */
  #startFirst(environment: EnvironmentName): boolean {
    if (this.inFlight.shortage(1, anonymous[environment]) !== undefined) return false;
    const start = this.waiting[environment].shift();
    start?.();
    return start !== undefined;
  }

  /** The claim of an account in an environment; the same object each time. */
  claim(environment: EnvironmentName, accountId: string, tier: 'public' | 'secret'): Claim {
    const accounts = this.#accounts[environment];
    let claims = accounts.get(accountId);
    if (claims === undefined) {
      const account = { connections: 0, inFlight: 0, buffered: 0 };
      const publicUse = { ...account };
      claims = {
        account,
        public: { tier: 'public', environment, account, publicUse },
        secret: { tier: 'secret', environment, account, publicUse: undefined },
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
