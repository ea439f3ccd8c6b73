import { LinkedList, type Linked } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import type { LimitIndex } from './parts.ts';

/** Bytes a millisecond: a body that arrives more slowly holds what it has taken for no good reason. */
const slow = 4;

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
  evict(): void;
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
   * Closes a connection with a public key that gives back what another one needs: the longest idle that may be closed for it, or else the one
   * whose body arrives slowest. All public keys together then hold no more than before: the other one may have it whatever its account's share is.
   *
   * @param claim of the other one
   * @returns false if there is none
   */
  replacePublicBut(exempt: Evictable, amount: number, limit: LimitIndex, claim: Claim): boolean {
    const now = performance.now();
    const short = claim.parts.filter((part) => part !== claim.ofPublic && !part.has(amount, limit));
    let slowest: Evictable | undefined;
    let least = Infinity;
    for (const connection of this.publicKeys) {
      if (connection === exempt || connection.taken(limit) < amount) continue;
      const pace = paceUntil(now, connection, amount, limit, claim);
      if (pace >= least || !short.every((part) => connection.claim.parts.includes(part))) continue;
      [slowest, least] = [connection, pace];
    }
    slowest?.evict();
    return slowest !== undefined;
  }
}

/**
 * How fast the body of a connection arrives, in bytes a millisecond; 0 if it is idle, and infinite if it must not be closed for the one of this
 * claim. An account that has more gives way to one that has less. So does a slow body, as those of a stranger are who has the public keys of
 * many shops, and the account's own idle connection; but if bodies that arrive well hold all, later ones of the account do not end them.
 */
function paceUntil(now: MonotonicMs, connection: Evictable, amount: number, limit: LimitIndex, claim: Claim): number {
  const { claim: own, isIdle, latestAt, arrived } = connection;
  const time = now - latestAt;
  if (isIdle) {
    const isNew = time < newlyIdle;
    // Rather close a slow body than an own connection that is about to be used.
    if (own === claim) return isNew ? slow : 0;
    return !isNew && hasMore(own, claim, amount, limit) ? 0 : Infinity;
  }
  const pace = time < newBody ? Infinity : arrived / time;
  return pace < slow || (own !== claim && hasMore(own, claim, amount, limit)) ? pace : Infinity;
}

/** Whether the public keys of an account have more than those of another one would have. Who has nothing has less than anybody. */
function hasMore(claim: Claim, other: Claim, amount: number, limit: LimitIndex): boolean {
  const [more, less] = [claim, other].map(({ ofPublic }) => ofPublic?.used[limit] ?? 0) as [number, number];
  return less === 0 || more > less + amount;
}
