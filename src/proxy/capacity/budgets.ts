import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { Limits } from '../../config/config.ts';
import {
  besideHeads,
  indexes,
  newAmounts,
  Part,
  anonymousShare,
  type FairShare,
  type LimitIndex,
  type LimitName,
  type Shortage,
} from './parts.ts';
import { queuesByCrowd, Turns, WaitQueue, type Crowd } from './queues.ts';

/** Who sends a request, as far as that is proven. Quotas keep anonymous and public traffic from starving secret keys. */
export type Tier = 'anonymous' | 'public' | 'secret';

/** Whom an amount is charged to. */
export interface Claim {
  readonly tier: Tier;
  readonly crowd: Crowd;
  /** Requests with secret keys, and clients with any key, wait only for others of the same account. */
  readonly turns: Turns;
  /** All of these parts must have room for the amount. */
  readonly parts: readonly Part[];
  /** What waiting requests are charged to in addition: they leave room for the incomplete heads of those whose key is not known yet. */
  readonly waiting?: Claim;
  /** For a public key, the shares of its account's public keys: of what all public keys get and, in test, of what those of test get. */
  readonly shares?: readonly Part[];
}

/** Closes connections of those who have no secret key, to make room. */
export interface Evictor {
  /** @see Eviction.makeAnonymousRoom */
  makeAnonymousRoom(amount: number, short: readonly Part[]): boolean;
  /** @see Eviction.makePublicRoom */
  makePublicRoom(amount: number, limit: LimitIndex, claim: Claim): boolean;
}

/** The share that all public keys together get of what others leave. */
const publicShare = (): number => 1 / 2;

/** The share that the public keys of one account get of what other public keys leave: a stranger may have the public keys of many shops. */
const accountPublicShare = (): number => 2 / 3;

/** If the whole is smaller, public keys have their quotas instead. The public keys of test have half of test's half. */
const minPublicWhole = 16;

/** A resource shared by all requests. */
class Budget {
  readonly #limit: LimitIndex;
  readonly #total: Part;

  constructor(name: LimitName, total: Part) {
    this.#limit = indexes[name];
    this.#total = total;
  }

  get used(): number {
    return this.#total.used[this.#limit];
  }

  /** Takes `amount` if it is available; otherwise says why it is not. The caller must give it back with the same claim. */
  take(amount: number, claim: Claim, evictor?: Evictor): Shortage | undefined {
    const short = this.#findRoom(amount, claim, evictor);
    if (short === undefined) this.#add(amount, claim);
    return short?.shortage;
  }

  give(amount: number, claim: Claim): void {
    this.#add(-amount, claim);
  }

  /** Charges what was taken to another claim. If it is not available there, it stays with the first claim, even beyond a lowered limit. */
  move(amount: number, from: Claim, to: Claim, evictor?: Evictor): Shortage | undefined {
    this.#add(-amount, from);
    const short = this.#findRoom(amount, to, evictor);
    this.#add(amount, short === undefined ? to : from);
    return short?.shortage;
  }

  /** Why `amount` is not available to a claim; undefined if it is. */
  shortage(amount: number, claim: Claim): Shortage | undefined {
    return this.#shortPart(amount, claim)?.shortage;
  }

  /** Makes room if it can. @returns the part that has no room, if there is one */
  #findRoom(amount: number, claim: Claim, evictor: Evictor | undefined): Part | undefined {
    const short = this.#shortPart(amount, claim);
    if (short === undefined || evictor === undefined) return short;
    if (claim.tier === 'public') return evictor.makePublicRoom(amount, this.#limit, claim) ? undefined : short;
    const all = claim.parts.filter((part) => !part.has(amount, this.#limit));
    // Strangers use no share of public keys or of an account.
    const mayHelp = all.every(({ shortage }) => shortage === 'total' || shortage === 'anonymous');
    return mayHelp && evictor.makeAnonymousRoom(amount, all) ? undefined : short;
  }

  #shortPart(amount: number, claim: Claim): Part | undefined {
    for (const part of claim.parts) if (!part.has(amount, this.#limit)) return part;
    return undefined;
  }

  #add(amount: number, claim: Claim): void {
    for (const { used } of claim.parts) used[this.#limit] += amount;
  }
}

/** The claims of one account in one environment. */
interface AccountClaims {
  readonly account: Part;
  /** What its secret keys use, in both environments. */
  readonly own: Part;
  readonly public: Claim;
  readonly secret: Claim;
}

/** Milliseconds between two removals of accounts that use nothing. */
const sweepInterval = 60_000;

/** The budgets of all requests, and what each account uses of them. */
export class Budgets {
  readonly #quotas = {
    total: newAmounts(),
    anonymous: newAmounts(),
    anonymousWaiting: newAmounts(),
    anonymousTest: newAmounts(),
    public: newAmounts(),
    test: newAmounts(),
    testPublic: newAmounts(),
    account: newAmounts(),
    accountPublic: newAmounts(),
  };
  readonly #least = newAmounts();
  /** The share of an account's secret keys of both environments together, an eighth more than in one: two halves would be all. */
  #accountShare = 0;
  readonly #total = new Part('total', this.#quotas.total);
  /** All with a valid key. What strangers hold is bounded or gives way, and must not count against those with a key. */
  readonly #keys = new Part('total', this.#quotas.total);
  readonly #anonymous = new Part('anonymous', this.#quotas.anonymous);
  readonly #anonymousWaiting = new Part('anonymous', this.#quotas.anonymousWaiting);
  readonly #anonymousTest = new Part('anonymous', this.#quotas.anonymousTest);
  readonly #public = new Part('public', this.#quotas.public, this.#fairShare(this.#keys, publicShare));
  readonly #test = new Part('test', this.#quotas.test);
  readonly #testKeys = new Part('test', this.#quotas.test);
  /** The public keys of test must not keep out its secret ones. */
  readonly #testPublic = new Part('public', this.#quotas.testPublic, this.#fairShare(this.#testKeys, publicShare));
  readonly #accounts = { test: new Map<string, AccountClaims>(), live: new Map<string, AccountClaims>() };

  readonly connections = new Budget('connections', this.#total);
  /** Requests in progress. */
  readonly inFlight = new Budget('inFlight', this.#total);
  /** Bytes of requests and responses in memory. */
  readonly buffered = new Budget('buffered', this.#total);
  /** The claims of requests without a valid key, before and after their environment is known. */
  readonly anonymous: Readonly<Record<EnvironmentName | 'none', Claim>>;
  /** The requests that wait for a place in flight; each must take it when it starts. Live requests do not wait for test requests. */
  readonly waiting = { live: new WaitQueue(), test: new WaitQueue() };
  readonly #turns = queuesByCrowd((crowd) => new Turns(crowd === 'anonymous'));
  #isStarting = false;
  readonly #sweep: NodeJS.Timeout;

  /** @param servesBoth whether there is a live environment to protect from the test environment */
  constructor(limits: Limits, servesBoth: boolean) {
    const anonymous = (...more: readonly Part[]): Claim => {
      const tier = 'anonymous';
      const claim = { tier, crowd: tier, turns: this.#turns.anonymous } as const;
      const waiting = { ...claim, parts: [this.#anonymousWaiting] };
      return { ...claim, parts: [this.#total, this.#anonymous, ...more], waiting };
    };
    this.anonymous = { none: anonymous(), live: anonymous(), test: anonymous(this.#test, this.#anonymousTest) };
    this.resize(limits, servesBoth);
    // Not at the end of each request: an entry for each request would promote them all to the old generation.
    this.#sweep = setInterval(() => this.#forgetIdle(), sweepInterval).unref();
  }

  /** Sets the quotas; what is in use stays in use. */
  resize({ connections, inFlight, buffered, requestBody, account }: Limits, servesBoth: boolean): void {
    const divide = (name: LimitName, size: number, min: number, anonymous: number): void => {
      const part = (fraction: number): number => Math.max(min, Math.floor(size * fraction));
      const limit = indexes[name];
      this.#least[limit] = min;
      this.#quotas.total[limit] = size;
      this.#quotas.anonymous[limit] = part(anonymous);
      this.#quotas.anonymousWaiting[limit] = Math.floor(part(anonymous) * besideHeads);
      this.#quotas.anonymousTest[limit] = part(servesBoth ? anonymous / 2 : anonymous);
      this.#quotas.public[limit] = part(1 / 2);
      this.#quotas.test[limit] = part(servesBoth ? 1 / 2 : 1);
      this.#quotas.testPublic[limit] = part(servesBoth ? 1 / 4 : 1 / 2);
      this.#quotas.account[limit] = part(account);
      this.#quotas.accountPublic[limit] = part(account / 2);
    };
    this.#accountShare = Math.min(1, account + 1 / 8);
    // A connection without a known key can be evicted, so anonymous ones may use all that nobody else needs.
    divide('connections', connections, 1, 1);
    divide('inFlight', inFlight, 1, anonymousShare);
    // At least enough for one body.
    divide('buffered', buffered, requestBody, anonymousShare);
    this.#startWaiting();
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  /** Gives a place in flight back; the first waiting request may take it. */
  giveSlot(claim: Claim): void {
    this.inFlight.give(1, claim);
    this.#startWaiting();
  }

  #startWaiting(): void {
    // A request that starts may end at once, and call this again: the next iteration of the loop below gives its place away.
    if (this.#isStarting) return;
    this.#isStarting = true;
    while (this.#startFirst('live') || this.#startFirst('test'));
    this.#isStarting = false;
  }

  /** Starts the request that has waited longest, if there is a place for it. Only requests without a key wait. */
  #startFirst(environment: EnvironmentName): boolean {
    const waiting = this.waiting[environment];
    if (waiting.length === 0 || this.inFlight.shortage(1, this.anonymous[environment]) !== undefined) return false;
    waiting.shift()?.();
    return true;
  }

  /** The claim of an account in an environment; the same object each time. */
  claim(environment: EnvironmentName, accountId: string, tier: 'public' | 'secret'): Claim {
    const accounts = this.#accounts[environment];
    let claims = accounts.get(accountId);
    if (claims === undefined) {
      const isTest = environment === 'test';
      const account = new Part('account', this.#quotas.account);
      // The public keys of an account must not keep out its secret ones.
      const accountPublic = new Part('account', this.#quotas.accountPublic);
      // The public keys of test must not keep out those of live, to which secret keys may leave less than test's half.
      const shares = [this.#public, ...(isTest ? [this.#testPublic] : [])].map((whole) => {
        const fairShare = this.#fairShare(whole, accountPublicShare, minPublicWhole);
        return new Part('account', this.#quotas.accountPublic, fairShare);
      });
      const share = (): number => this.#accountShare;
      const own =
        this.#accounts[isTest ? 'live' : 'test'].get(accountId)?.own ??
        new Part('account', this.#quotas.total, this.#fairShare(this.#keys, share));
      const ownParts = isTest
        ? [this.#test, this.#testKeys, new Part('account', this.#quotas.test, this.#fairShare(this.#testKeys, share))]
        : [];
      const publicParts = isTest ? [this.#public, this.#test, this.#testKeys, this.#testPublic] : [this.#public];
      claims = {
        account,
        own,
        public: {
          tier: 'public',
          crowd: `${environment}Public`,
          // A stranger can have the public keys of many shops: all who have sent much wait together. Those held up wait with others of
          // their account.
          turns: new Turns(false, this.#turns[`${environment}Public`]),
          parts: [this.#total, this.#keys, ...publicParts, account, accountPublic, ...shares],
          shares,
        },
        secret: {
          tier: 'secret',
          crowd: environment,
          turns: new Turns(),
          parts: [this.#total, this.#keys, ...ownParts, account, own],
        },
      };
      accounts.set(accountId, claims);
    }
    return claims[tier];
  }

  #fairShare(whole: Part, share: () => number, minWhole?: number): FairShare {
    return { whole, share, minWhole, least: this.#least };
  }

  #forgetIdle(): void {
    for (const accounts of Object.values(this.#accounts)) {
      for (const [id, { account }] of accounts) {
        if (account.used.every((amount) => amount === 0)) accounts.delete(id);
      }
    }
  }
}
