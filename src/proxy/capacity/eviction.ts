import { LinkedList, type Linked } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import type { LimitIndex } from './parts.ts';

/** Bytes a millisecond: a body that arrives more slowly holds what it has taken for no good reason. */
const slowPace = 4;

/** The part of what all public keys may have that is much for the slow bodies of one account: an honest one has few. */
const muchSlow = 1 / 16;

/** Milliseconds in which the first bytes of a body arrive: most come with the head. */
const newBody = 100;

/** Milliseconds of idleness after which few clients are just about to use a connection again. */
const newlyIdle = 500;

/** A connection that may be closed to make room for others. Its links are those of the list in which it stands. */
export interface Evictable extends Linked<Evictable> {
  readonly claim: Claim;
  readonly isIdle: boolean;
  /** Whether its request has a place in flight. */
  readonly holdsSlot: boolean;
  /** How much of a limit it has taken that is billed to its claim. */
  taken(limit: LimitIndex): number;
  /** Bytes that it may hold as long as it likes, times the milliseconds for which it has held them. */
  costUntil(now: MonotonicMs): number;
  /** When its latest request began, or it became idle, on `performance.now()`'s scale. */
  readonly latestAt: MonotonicMs;
  /** Bytes of the body that is arriving; infinite if there is none. */
  readonly arrived: number;
  /** @param limit what is short, if it is not the connection itself: then its request is refused */
  evict(limit?: LimitIndex): void;
}

/** The connections that may be closed to make room for others. */
export class Eviction {
  /** Those that never carried a valid key, longest idle first. Few of them have a place in flight. */
  readonly strangers = new LinkedList<Evictable>();
  /** Those with public keys, in the order in which they became idle or busy. */
  readonly publicKeys = new LinkedList<Evictable>();

  closeLongestIdle(): void {
    for (const connection of this.strangers) if (!connection.holdsSlot) return connection.evict();
  }

  /** Closes the connection without a valid key that has held most for longest. @returns false if there is none */
  closeCostliestBut(exempt: Evictable): boolean {
    const now = performance.now();
    let costliest: Evictable | undefined;
    let most = 0;
    for (const connection of this.strangers) {
      const cost = connection === exempt ? 0 : connection.costUntil(now);
      if (cost > most) [costliest, most] = [connection, cost];
    }
    costliest?.evict();
    return costliest !== undefined;
  }

  /**
   * Closes a connection with a public key that gives back what another one needs. All public keys together then hold no more than before: the
   * other one may have it whatever its account's share is.
   *
   * @param claim of the other one
   * @returns false if there is none that may be closed for it
   */
  replacePublicBut(exempt: Evictable, amount: number, limit: LimitIndex, claim: Claim): boolean {
    const now = performance.now();
    const lacking = claim.parts.filter((part) => !part.has(amount, limit));
    const short = lacking.map((part) => (part === claim.ofPublic ? part.source : part));
    const others = [...this.publicKeys].filter((each) => each !== exempt && each.taken(limit) > 0);
    const slow = new Map<Claim, number>();
    for (const each of others)
      if (isSlow(each, now)) slow.set(each.claim, (slow.get(each.claim) ?? 0) + each.taken(limit));
    const wanted = { amount, limit, claim, slow, ignoresSlow: mayIgnoreSlow(amount, limit, claim, slow) };
    let first: readonly [rank: number, connection: Evictable] | undefined;
    for (const each of others) {
      if (each.taken(limit) < amount || !short.every((part) => each.claim.parts.includes(part))) continue;
      const rank = rankOf(each, now, wanted);
      if (rank !== undefined && (first === undefined || rank < first[0])) first = [rank, each];
    }
    first?.[1].evict(limit);
    return first !== undefined;
  }
}

/** What a connection is to be closed for. */
interface Wanted {
  readonly amount: number;
  readonly limit: LimitIndex;
  readonly claim: Claim;
  /** What the slow bodies of each account have taken of the limit. */
  readonly slow: ReadonlyMap<Claim, number>;
  /** As of `mayIgnoreSlow`. */
  readonly ignoresSlow: boolean;
}

/** Whether an account would be within its share without the slow bodies of others, as those of a stranger are who has the public keys of many shops. */
function mayIgnoreSlow(amount: number, limit: LimitIndex, claim: Claim, slow: ReadonlyMap<Claim, number>): boolean {
  const { ofPublic } = claim;
  if (ofPublic === undefined) return false;
  let ofOthers = 0;
  for (const [other, taken] of slow) if (other !== claim && other.parts.includes(ofPublic.source)) ofOthers += taken;
  return ofPublic.has(amount, limit, ofOthers);
}

/** Whether a body has been arriving slowly for a while. */
function isSlow({ isIdle, latestAt, arrived }: Evictable, now: MonotonicMs): boolean {
  const time = now - latestAt;
  return !isIdle && time >= newBody && arrived / time < slowPace;
}

/**
 * The order in which connections are closed: slow bodies of an account that has many, those first whose account has most; idle ones by chance, own
 * ones first; other slow bodies; and own idle ones that may be about to be used. Undefined if it must not be: a body that arrives well was
 * not sent in vain, and an idle connection gives way to its account, or to one that has less.
 */
function rankOf(connection: Evictable, now: MonotonicMs, wanted: Wanted): number | undefined {
  const { claim } = connection;
  const isOwn = claim === wanted.claim;
  if (connection.isIdle) {
    const time = now - connection.latestAt;
    // Of clients that call again and again, the one that has been idle longest is just about to.
    const chance = Math.random() / 2;
    if (isOwn) return (time < newlyIdle ? 2 : 0) + chance;
    return time >= newlyIdle && hasMore(claim, wanted) ? 0.5 + chance : undefined;
  }
  if (isSlow(connection, now) && (isOwn || wanted.ignoresSlow)) {
    const taken = wanted.slow.get(claim) ?? 0;
    const isMuch = taken >= muchSlow * (claim.ofPublic?.source.quotas[wanted.limit] ?? 0);
    return isMuch ? -taken : 1 + 1 / (1 + taken);
  }
  return undefined;
}

/** Whether the public keys of an account have more than those of the other one would have. Who has nothing has less than anybody. */
function hasMore({ ofPublic }: Claim, { amount, limit, claim }: Wanted): boolean {
  const taken = claim.ofPublic?.used[limit] ?? 0;
  return taken === 0 || (ofPublic?.used[limit] ?? 0) > taken + amount;
}
