import { LinkedList, type Linked } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import { indexes, type LimitIndex, type Part } from './parts.ts';

/** In bytes per millisecond: a body that arrives more slowly holds what it has taken for no good reason. */
const slowPace = 4;

/** If the slow bodies of one account take this fraction of what all public keys may have, they count as many: an honest account has few. */
const muchSlow = 1 / 16;

/** How many connections may be closed for one amount of bytes. */
const maxClosed = 32;

/** How long the first bytes of a body take to arrive, in milliseconds: most come with the head. */
const newBody = 100;

/** Milliseconds of idleness after which few clients are just about to use a connection again. */
const newlyIdle = 500;

/**
 * What strangers may have to give up: `unread` responses for bodies of strangers, all that their `requests` hold for responses that are not
 * read, and `all`, incomplete heads too, for heads and for bodies that may be a merchant's.
 */
export type AnonymousBytes = 'unread' | 'requests' | 'all';

/** A connection that may be closed to make room for others. Its links are those of the list that it is in. */
export interface Evictable extends Linked<Evictable> {
  readonly claim: Claim;
  readonly isIdle: boolean;
  /** Whether its request has a place in flight. */
  readonly holdsSlot: boolean;
  /** How much it has taken of a limit, as far as that is charged to its claim. */
  taken(limit: LimitIndex): number;
  /** How many bytes count in a part that it holds as long as its client likes, and since when, on `performance.now()`'s scale. */
  yields(part: Part, from: AnonymousBytes): number;
  readonly since: MonotonicMs;
  /** When its latest request began, or when it became idle, on `performance.now()`'s scale. */
  readonly latestAt: MonotonicMs;
  /** How many bytes of its body have arrived; infinite if no body is arriving. */
  readonly arrived: number;
  /** @param limit the limit that is short: unless it is that of connections, a request in progress is refused instead */
  evict(limit?: LimitIndex): void;
}

/** How many bytes a part lacks. */
interface Need {
  readonly part: Part;
  readonly bytes: number;
}

/** The first candidates that suffice; undefined if all of them do not. */
function choose(
  candidates: readonly Evictable[],
  needs: readonly Need[],
  from: AnonymousBytes,
): readonly Evictable[] | undefined {
  let open = needs;
  for (const [i, each] of candidates.entries()) {
    open = open
      .map(({ part, bytes }) => ({ part, bytes: bytes - each.yields(part, from) }))
      .filter(({ bytes }) => bytes > 0);
    if (open.length === 0) return candidates.slice(0, i + 1);
  }
  return undefined;
}

/** As many connections as may be closed for one amount, those with the highest ranks, in this order. */
class Top {
  readonly entries: { readonly each: Evictable; readonly rank: number }[] = [];

  offer(each: Evictable, rank: number): void {
    const { entries } = this;
    if (entries.length === maxClosed) {
      if (rank <= (entries.at(-1)?.rank ?? 0)) return;
      entries.pop();
    }
    const place = entries.findIndex((other) => other.rank < rank);
    entries.splice(place === -1 ? entries.length : place, 0, { each, rank });
  }
}

/** The connections that may be closed to make room for others. */
export class Eviction {
  /** Those that have never carried a valid key, longest idle first. Few of them have a place in flight. */
  readonly anonymous = new LinkedList<Evictable>();
  /** Those that have carried a valid key, with a request without a key whose client takes as long as it likes: strangers know public keys. */
  readonly keyless = new LinkedList<Evictable>();
  /** Those with public keys, in the order in which they became idle or busy. */
  readonly publicKeys = new LinkedList<Evictable>();

  closeLongestIdle(): void {
    for (const connection of this.anonymous) if (!connection.holdsSlot) return connection.evict();
  }

  /**
   * Makes room for bytes: closes the connections that have never carried a valid key, and ends the requests without a key, that have held most
   * for longest. By bytes alone, a merchant's whole head that comes in two pieces would give way to many small heads that never end.
   *
   * @param exempt the connection that needs the room
   * @param short the parts that have none
   * @returns false if there is no room; then nothing is closed
   */
  makeAnonymousRoom(exempt: Evictable, amount: number, short: readonly Part[], from: AnonymousBytes): boolean {
    const needs = short.map((part): Need => ({
      part,
      bytes: part.used[indexes.buffered] + amount - part.quotas[indexes.buffered],
    }));
    for (const candidates of this.#mostHolding(exempt, short.at(-1), from)) {
      const chosen = choose(candidates, needs, from);
      for (const each of chosen ?? []) each.evict(each.claim.tier === 'anonymous' ? undefined : indexes.buffered);
      if (chosen !== undefined) return true;
    }
    return false;
  }

  /**
   * The connections that have held most for longest and, in case those are too small, the ones that hold most; of each, as many as may be
   * closed, in this order. Found in one pass, because there may be thousands.
   *
   * @param part the part that counts: what counts in the last part counts in the others too
   */
  #mostHolding(exempt: Evictable, part: Part | undefined, from: AnonymousBytes): readonly (readonly Evictable[])[] {
    if (part === undefined) return [];
    const now = performance.now();
    const [costliest, largest] = [new Top(), new Top()];
    for (const list of [this.anonymous, this.keyless]) {
      for (const each of list) {
        const bytes = each === exempt ? 0 : each.yields(part, from);
        if (bytes === 0) continue;
        const time = now - each.since;
        costliest.offer(each, bytes * time);
        // A merchant's head that comes in two pieces is held for a moment only.
        if (time > newBody) largest.offer(each, bytes);
      }
    }
    return [costliest.entries, largest.entries].map((entries) => entries.map(({ each }) => each));
  }

  /**
   * Makes room for what a connection with a public key needs. What others hold with idle connections and slow bodies, as a stranger does
   * who has the public keys of many shops, does not count against the share of the connection's account, and gives way if there is no room
   * at all. If the account is beyond its share, only its own idle connections and slow bodies give way. A body that arrives well never
   * gives way: it was not sent in vain.
   *
   * @param claim the connection's claim
   * @returns false if there is no room; then nothing is closed
   */
  makePublicRoom(exempt: Evictable, amount: number, limit: LimitIndex, claim: Claim): boolean {
    const { shares = [] } = claim;
    const now = performance.now();
    const others = [...this.publicKeys, ...this.keyless].flatMap((each) => {
      const taken = each === exempt || each.claim.tier !== 'public' ? 0 : each.taken(limit);
      const state = taken === 0 ? undefined : stateOf(each, now);
      return state === undefined ? [] : [{ each, taken, state, isOwn: each.claim === claim }];
    });
    const slow = new Map<Claim, number>();
    for (const { each, taken, state } of others)
      if (state === 'slow') slow.set(each.claim, (slow.get(each.claim) ?? 0) + taken);
    const uncountedOf = ({ source }: Part): number =>
      others
        .filter(({ each, state, isOwn }) => !isOwn && state !== 'newly idle' && each.claim.parts.includes(source))
        .reduce((sum, { taken }) => sum + taken, 0);
    const isInShare = shares.every((share) => share.has(amount, limit, uncountedOf(share)));
    const short = claim.parts.filter((part) => !shares.includes(part) && !part.has(amount, limit));
    if (isInShare && short.length === 0) return true;
    const much = muchSlow * (shares.at(-1)?.source.quotas[limit] ?? 0);
    const ranked = others
      .filter(({ each, state, isOwn }) => {
        const mayEnd = isOwn || (isInShare && state !== 'newly idle');
        return mayEnd && short.every((part) => each.claim.parts.includes(part));
      })
      .map(({ each, taken, state, isOwn }) => {
        return { each, taken, rank: rankOf(state, isOwn, slow.get(each.claim) ?? 0, much) };
      })
      .toSorted((a, b) => a.rank - b.rank);
    const chosen: Evictable[] = [];
    let found = 0;
    for (const { each, taken } of ranked.slice(0, maxClosed)) {
      if (found >= amount) break;
      chosen.push(each);
      found += taken;
    }
    if (found < amount) return false;
    for (const each of chosen) each.evict(limit);
    return true;
  }
}

type State = 'idle' | 'newly idle' | 'slow';

/** Undefined if it has a request that is not waiting for its client, or whose body arrives well. */
function stateOf({ isIdle, latestAt, arrived }: Evictable, now: MonotonicMs): State | undefined {
  const time = now - latestAt;
  if (isIdle) return time < newlyIdle ? 'newly idle' : 'idle';
  return time >= newBody && arrived / time < slowPace ? 'slow' : undefined;
}

/**
 * The order in which connections are closed: first those with slow bodies of accounts that have many, beginning with the account that has
 * most; then idle ones, the account's own first; then those with other slow bodies; last, the account's own idle ones that may be about to
 * be used.
 *
 * @param slow how much the slow bodies of the connection's account have taken
 * @param much the amount from which an account has many of them
 */
function rankOf(state: State, isOwn: boolean, slow: number, much: number): number {
  if (state === 'slow') return slow >= much ? -slow : 1 + 1 / (1 + slow);
  // At random: if clients call again and again, the one that has been idle longest is just about to call.
  const chance = Math.random() / 2;
  if (state === 'newly idle') return 2 + chance;
  return (isOwn ? 0 : 0.5) + chance;
}
