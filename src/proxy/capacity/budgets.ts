import type { EnvironmentName } from '../../accounts/api-key.ts';
import type { Limits } from '../../config/config.ts';
import { FairQueue, TurnAbout } from '../../fair-queue.ts';
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
import { QueuesOfAll, Turns, type Crowd } from './queues.ts';

/** The kind of key that a request has proven to have. Quotas keep public keys and requests without a key from starving secret keys. */
export type Tier = 'anonymous' | 'public' | 'secret';

/** Names the parts of the budgets that an amount is charged to. */
export interface Claim {
  readonly tier: Tier;
  readonly crowd: Crowd;
  /**
   * The queues in which the claim's requests and clients wait. With a secret key, they wait only for requests and clients of the same
   * account. With a public key, they also wait for those of other accounts, except when a client is held up.
   */
  readonly turns: Turns;
  /** All of these parts must have room for the amount. */
  readonly parts: readonly Part[];
  /** A second claim that a waiting request is also charged to. It leaves room for incomplete heads, whose keys are not known yet. */
  readonly waiting?: Claim;
  /** For public keys only: the account's fair share of the room for all public keys and, in test, also of the room for public keys in test. */
  readonly shares?: readonly Part[];
}

/** Makes room by closing connections, or ending requests, of clients without a secret key. */
export interface Evictor {
  /** @see Eviction.makeAnonymousRoom */
  makeAnonymousRoom(amount: number, short: readonly Part[]): boolean;
  /** @see Eviction.makePublicRoom */
  makePublicRoom(amount: number, limit: LimitIndex, claim: Claim): boolean;
}

/** The share of the room left unused by secret keys that all public keys together may take. */
const publicShare = (): number => 1 / 2;

/** The share that one account's public keys get of the room that is left. An attacker may have the keys of many accounts. */
const accountPublicShare = (): number => 2 / 3;

/** If the whole is smaller than this, only the quotas apply to public keys. In test, the whole may be only a quarter of the limit. */
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

  /** Takes `amount` if it is available; otherwise returns the reason. The caller must give the amount back with the same claim. */
  take(amount: number, claim: Claim, evictor?: Evictor): Shortage | undefined {
    const short = this.#findRoom(amount, claim, evictor);
    if (short === undefined) this.#add(amount, claim);
    return short?.shortage;
  }

  give(amount: number, claim: Claim): void {
    this.#add(-amount, claim);
  }

  /** Charges a taken amount to another claim. If that claim has no room, the first claim keeps the charge, even beyond a lowered limit. */
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

  /** Looks for room, and makes some if the evictor can. @returns the part that has no room, if there is one */
  #findRoom(amount: number, claim: Claim, evictor: Evictor | undefined): Part | undefined {
    const short = this.#shortPart(amount, claim);
    if (short === undefined || evictor === undefined) return short;
    if (claim.tier === 'public') return evictor.makePublicRoom(amount, this.#limit, claim) ? undefined : short;
    const all = claim.parts.filter((part) => !part.has(amount, this.#limit));
    // Evicting requests without a key frees nothing in the parts of accounts or of public keys.
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
  /** What the account's secret keys use in both environments together. */
  readonly own: Part;
  readonly public: Claim;
  readonly secret: Claim;
}

/** Milliseconds between removals of accounts that use nothing. */
const sweepInterval = 60_000;

/** The budgets of all requests, and how much of them each account uses. */
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
  /** The share of an account's secret keys in both environments: an eighth more than in one, because twice as much could be everything. */
  #accountShare = 0;
  readonly #total = new Part('total', this.#quotas.total);
  /** The part that all valid keys use. Requests without a valid key do not count against it, because they are bounded or can be evicted. */
  readonly #keys = new Part('total', this.#quotas.total);
  readonly #anonymous = new Part('anonymous', this.#quotas.anonymous);
  readonly #anonymousWaiting = new Part('anonymous', this.#quotas.anonymousWaiting);
  readonly #anonymousTest = new Part('anonymous', this.#quotas.anonymousTest);
  readonly #public = new Part('public', this.#quotas.public, this.#fairShare(this.#keys, publicShare));
  readonly #test = new Part('test', this.#quotas.test);
  readonly #testKeys = new Part('test', this.#quotas.test);
  /** Limits test's public keys, so that they cannot keep out test's secret keys. */
  readonly #testPublic = new Part('public', this.#quotas.testPublic, this.#fairShare(this.#testKeys, publicShare));
  readonly #accounts = { test: new Map<string, AccountClaims>(), live: new Map<string, AccountClaims>() };

  readonly connections = new Budget('connections', this.#total);
  /** Slots for requests in progress. */
  readonly inFlight = new Budget('inFlight', this.#total);
  /** Bytes of requests and responses in memory. */
  readonly buffered = new Budget('buffered', this.#total);
  /** The claims of requests without a valid key, before (`none`) and after their environment is known. */
  readonly anonymous: Readonly<Record<EnvironmentName | 'none', Claim>>;
  /** Requests that wait for a slot, by client address; each must take a slot when it starts. The environments take turns. */
  readonly waiting = { live: new FairQueue<string>(), test: new FairQueue<string>() };
  readonly #waitingInTurn = new TurnAbout(
    ...(['live', 'test'] as const).map((name) => ({
      shift: () => (this.#mayStart(name) ? this.waiting[name].shift() : undefined),
    })),
  );
  readonly #publicTurns = { live: new QueuesOfAll(), test: new QueuesOfAll() } as const;
  #isStarting = false;
  readonly #sweep: NodeJS.Timeout;

  /** @param servesBoth whether there is a live environment to protect from the test environment */
  constructor(limits: Limits, servesBoth: boolean) {
    const [tier, turns] = ['anonymous', new Turns(true)] as const;
    const anonymous = (...more: readonly Part[]): Claim => {
      const claim = { tier, crowd: tier, turns } as const;
      const waiting = { ...claim, parts: [this.#anonymousWaiting] };
      return { ...claim, parts: [this.#total, this.#anonymous, ...more], waiting };
    };
    this.anonymous = { none: anonymous(), live: anonymous(), test: anonymous(this.#test, this.#anonymousTest) };
    this.resize(limits, servesBoth);
    // Idle accounts are not removed after each request, because V8 would then promote an entry for each request to the old generation.
    this.#sweep = setInterval(() => this.#forgetIdle(), sweepInterval).unref();
  }

  /** Sets the quotas. Amounts that have already been taken are kept. */
  resize({ connections, inFlight, buffered, requestBody, account }: Limits, servesBoth: boolean): void {
    const divide = (name: LimitName, size: number, min: number, anonymous: number): void => {
      const part = (fraction: number): number => Math.max(min, Math.floor(size * fraction));
      const limit = indexes[name];
      this.#least[limit] = min;
      this.#quotas.total[limit] = size;
      // A body that is being processed cannot be evicted. Even the longest one must leave room for heads and other bodies.
      const ofAnonymous = (fraction: number): number => Math.max(part(fraction), Math.floor(min / besideHeads));
      this.#quotas.anonymous[limit] = ofAnonymous(anonymous);
      this.#quotas.anonymousWaiting[limit] = Math.floor(ofAnonymous(anonymous) * besideHeads);
      this.#quotas.anonymousTest[limit] = ofAnonymous(servesBoth ? anonymous / 2 : anonymous);
      this.#quotas.public[limit] = part(1 / 2);
      this.#quotas.test[limit] = part(servesBoth ? 1 / 2 : 1);
      this.#quotas.testPublic[limit] = part(servesBoth ? 1 / 4 : 1 / 2);
      this.#quotas.account[limit] = part(account);
      this.#quotas.accountPublic[limit] = part(account / 2);
    };
    this.#accountShare = Math.min(1, account + 1 / 8);
    // Anonymous connections can be evicted, so they may use everything that nobody else needs.
    divide('connections', connections, 1, 1);
    divide('inFlight', inFlight, 1, anonymousShare);
    // `requestBody` is the minimum, so that a part has room for at least one body.
    divide('buffered', buffered, requestBody, anonymousShare);
    this.#startWaiting();
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  /** Gives a slot back, so that the first waiting request may take it. */
  giveSlot(claim: Claim): void {
    this.inFlight.give(1, claim);
    this.#startWaiting();
  }

  #startWaiting(): void {
    // A request that starts may end at once and call this method again. The next iteration of the loop below then passes its slot on.
    if (this.#isStarting) return;
    this.#isStarting = true;
    while (this.#startFirst());
    this.#isStarting = false;
  }

  #mayStart(name: EnvironmentName): boolean {
    return this.waiting[name].length > 0 && this.inFlight.shortage(1, this.anonymous[name]) === undefined;
  }

  /** Starts the next waiting request for which there is a slot. Only requests without a key wait. */
  #startFirst(): boolean {
    const start = this.#waitingInTurn.shift();
    start?.();
    return start !== undefined;
  }

  /** The claim of an account in an environment; the same object for as long as the account uses anything. */
  claim(environment: EnvironmentName, accountId: string, tier: 'public' | 'secret'): Claim {
    const accounts = this.#accounts[environment];
    let claims = accounts.get(accountId);
    if (claims === undefined) {
      const isTest = environment === 'test';
      const account = new Part('account', this.#quotas.account);
      // An account's public keys must not keep out its secret keys.
      const accountPublic = new Part('account', this.#quotas.accountPublic);
      // Test's public keys also need a share of the part for all public keys. Otherwise, they could keep out live's public keys when secret
      // keys leave public keys less room than test's public keys may use.
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
          // Anyone can have the public keys of many shops, so all accounts share queues and take turns, both for requests and for clients
          // that have sent a lot of data or many small pieces. Clients that are held up wait only for clients of the same account.
          turns: new Turns(false, this.#publicTurns[environment]),
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
