import { LinkedList, type Linked } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import type { LimitIndex } from './parts.ts';

/** Bytes a millisecond: a body that arrives more slowly holds what it has taken for no good reason. */
const slowPace = 4;

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
    let first: readonly [rank: number, connection: Evictable] | undefined;
    for (const each of others) {
      if (each.taken(limit) < amount || !short.every((part) => each.claim.parts.includes(part))) continue;
      const rank = rankOf(each, now, claim, amount, limit, slow);
      if (rank !== undefined && (first === undefined || rank < first[0])) first = [rank, each];
    }
    first?.[1].evict(limit);
    return first !== undefined;
  }
}

/** Whether a body has been arriving slowly for a while. */
function isSlow({ isIdle, latestAt, arrived }: Evictable, now: MonotonicMs): boolean {
  const time = now - latestAt;
  return !isIdle && time >= newBody && arrived / time < slowPace;
}

/**
 * The order in which connections are closed for the one of a claim: idle ones, slow bodies, idle ones that may be about to be used, and bodies that arrive
 * well; undefined if it must not be. An account gives way to its own, and to one that has less; but if bodies that arrive well hold all, later
 * ones of the account do not end them. Of slow bodies, as those of a stranger are who has the public keys of many shops, those go first whose account
 * has most of them: to none that has as many.
 *
 * @param slow what the slow bodies of each account have taken of the limit
 */
function rankOf(
  connection: Evictable,
  now: MonotonicMs,
  claim: Claim,
  amount: number,
  limit: LimitIndex,
  slow: ReadonlyMap<Claim, number>,
): number | undefined {
  const { claim: own, isIdle, latestAt, arrived } = connection;
  const time = now - latestAt;
  if (isIdle) {
    if (own === claim) return time < newlyIdle ? 2 : 0;
    return time >= newlyIdle && hasMore(own, claim, amount, limit) ? 0 : undefined;
  }
  if (isSlow(connection, now)) {
    const taken = slow.get(own) ?? 0;
    // Between 1 and 2.
    if (own === claim || taken > (slow.get(claim) ?? 0)) return 1 + 1 / (taken + 1);
  }
  const mayEnd = own !== claim && arrived < Infinity && time >= newBody && hasMore(own, claim, amount, limit);
  return mayEnd ? 3 + arrived / time : undefined;
}

/** Whether the public keys of an account have more than those of another one would have. Who has nothing has less than anybody. */
function hasMore(claim: Claim, other: Claim, amount: number, limit: LimitIndex): boolean {
  const [more, less] = [claim, other].map(({ ofPublic }) => ofPublic?.used[limit] ?? 0) as [number, number];
  return less === 0 || more > less + amount;
}
