import { LinkedList, type Linked } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import { indexes, type LimitIndex, type Part } from './parts.ts';

/** Bytes per millisecond. A body that arrives more slowly than this has no good reason to hold what it has taken. */
const slowPace = 4;

/**
 * If the slow bodies of one account take at least this fraction of what all public keys may use, the account has too many of them. An
 * honest account has few.
 */
const muchSlow = 1 / 16;

/** Maximum number of connections closed to make room for one amount. */
const maxClosed = 32;

/** If a client has sent too many wrong keys, the time for which it has held its bytes is multiplied by this factor. */
const suspectFactor = 1_000_000;

/** Milliseconds that the first bytes of a body may take to arrive. In most requests, they come with the head. */
const newBody = 100;

/** For this many milliseconds of a turn of the event loop, connections with public keys are not looked through again. */
const passLasts = 10;

/** After this many milliseconds of idleness, a client is unlikely to be just about to use its connection again. */
const newlyIdle = 500;

/**
 * Which bytes of requests without a valid key may be evicted. `unread`: only unread responses, to make room for a body of such a request.
 * `requests`: everything that such requests hold, to make room for an unread response. `all`: also incomplete heads, to make room for a
 * head, or for a body that may be a merchant's.
 */
export type AnonymousBytes = 'unread' | 'requests' | 'all';

/** A connection that may be closed to make room for others. `previous` and `next` belong to the list that it is in. */
export interface Evictable extends Linked<Evictable> {
  readonly claim: Claim;
  readonly isIdle: boolean;
  /** Whether the request's key is being looked up, and the client has sent too many wrong keys. If so, the connection is evicted first. */
  readonly isSuspect: boolean;
  /** Whether the connection holds only a complete request without a response. If so, that request is refused, and its client learns why. */
  readonly isWhole: boolean;
  /** Whether the connection's request holds a slot. */
  readonly holdsSlot: boolean;
  /** How much of a limit the connection has taken and charged to its claim. */
  taken(limit: LimitIndex): number;
  /** How many of the bytes that are charged to a part may be evicted, because they are held for as long as the client likes. */
  yields(part: Part, from: AnonymousBytes): number;
  /** When the connection began to hold bytes that may be evicted, by `performance.now()`. */
  readonly since: MonotonicMs;
  /** When the latest request began or, if the connection is idle, when it became idle; by `performance.now()`. */
  readonly latestAt: MonotonicMs;
  /** How many bytes of the request's body have arrived; infinite if no body is arriving. */
  readonly arrived: number;
  /** Closes the connection. @param limit the limit that is short; unless it is `connections`, a request in progress is refused instead */
  evict(limit?: LimitIndex): void;
}

/** How many bytes a part lacks. */
type Need = Readonly<{ part: Part; bytes: number }>;

/** As few of the first candidates as it takes to meet the needs; undefined if all of them together do not meet the needs. */
function choose(
  candidates: readonly Evictable[],
  needs: readonly Need[],
  from: AnonymousBytes,
): readonly Evictable[] | undefined {
  let open = needs.filter(({ bytes }) => bytes > 0);
  if (open.length === 0) return [];
  for (const [i, each] of candidates.entries()) {
    open = open
      .map(({ part, bytes }) => ({ part, bytes: bytes - each.yields(part, from) }))
      .filter(({ bytes }) => bytes > 0);
    if (open.length === 0) return candidates.slice(0, i + 1);
  }
  return undefined;
}

/** Collects the `maxClosed` connections with the highest ranks, highest first. */
class Top {
  readonly entries: { readonly each: Evictable; readonly rank: number }[] = [];

  offer(each: Evictable, rank: number): void {
    const { entries } = this;
    const isFull = entries.length === maxClosed;
    if (rank === 0 || (isFull && rank <= (entries.at(-1)?.rank ?? 0))) return;
    if (isFull) entries.pop();
    const place = entries.findIndex((other) => other.rank < rank);
    entries.splice(place === -1 ? entries.length : place, 0, { each, rank });
  }
}

/** The connections that may be closed to make room for others. */
export class Eviction {
  /** Connections that have never carried a valid key, longest idle first. Few of them hold a slot. */
  readonly anonymous = new LinkedList<Evictable>();
  /**
   * Connections that have carried a valid key, but now have a request without a key, which the client can prolong at will. They may be
   * closed because the earlier key may have been public, and anyone can know a public key.
   */
  readonly keyless = new LinkedList<Evictable>();
  /** Connections with public keys, in the order in which they became idle or busy. */
  readonly publicKeys = new LinkedList<Evictable>();
  /** For each limit, the latest pass over connections with public keys. */
  readonly #passes: Partial<Record<LimitIndex, Pass>> = {};

  closeLongestIdle(): void {
    for (const connection of this.anonymous) if (!connection.holdsSlot) return connection.evict();
  }

  /**
   * Makes room for bytes: closes connections that have never carried a valid key, and ends requests without a key, beginning with those
   * that have held the most bytes for the longest time. If only bytes counted, a merchant's complete head that arrives in two pieces would
   * be evicted before many small heads that never end.
   *
   * @param exempt the connection that needs the room
   * @param short the parts that have no room
   * @returns false if there is not enough to evict; nothing is closed then
   */
  makeAnonymousRoom(exempt: Evictable, amount: number, short: readonly Part[], from: AnonymousBytes): boolean {
    const needs = short.map((part): Need => ({
      part,
      bytes: part.used[indexes.buffered] + amount - part.quotas[indexes.buffered],
    }));
    for (const candidates of this.#mostHolding(exempt, short.at(-1), from)) {
      const chosen = choose(candidates, needs, from);
      for (const each of chosen ?? [])
        each.evict(each.claim.tier !== 'anonymous' || each.isWhole ? indexes.buffered : undefined);
      if (chosen !== undefined) return true;
    }
    return false;
  }

  /**
   * Two lists of candidates: the connections that have held the most bytes for the longest time and, in case these hold too little, the
   * connections that hold the most bytes. Each list has at most `maxClosed` connections, in descending order. Both are found in one pass,
   * because there may be thousands of connections.
   *
   * @param part the last of the parts that have no room. Bytes that are charged to it are charged to the other parts too.
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
        costliest.offer(each, bytes * time * (each.isSuspect ? suspectFactor : 1));
        // A merchant's head that arrives in two pieces is held only for a moment.
        if (time > newBody) largest.offer(each, bytes);
      }
    }
    return [costliest.entries, largest.entries].map((entries) => entries.map(({ each }) => each));
  }

  /**
   * Makes room for what a connection with a public key needs.
   *
   * Idle connections and slow bodies of other accounts do not count against the share of the connection's account, because an attacker with
   * the public keys of many shops could hold a lot in this way. If there is no room at all, such connections and bodies are evicted. If the
   * account is beyond its share, only its own idle connections and slow bodies are evicted. A body that arrives fast enough is never
   * evicted, because then it would have been sent in vain.
   *
   * @param claim the connection's claim
   * @returns false if there is not enough to evict; nothing is closed then
   */
  makePublicRoom(exempt: Evictable, amount: number, limit: LimitIndex, claim: Claim): boolean {
    const { shares = [] } = claim;
    const now = performance.now();
    // There may be thousands of connections, and each may need room for a request, or for each piece of a head, in the same turn.
    let pass = this.#passes[limit];
    if (pass === undefined || now >= pass.until) {
      pass = new Pass([this.publicKeys, this.keyless], limit, now);
      this.#passes[limit] = pass;
      // Otherwise, closed connections would stay in memory.
      setImmediate(() => delete this.#passes[limit]);
    }
    const isInShare = shares.every((share) => share.has(amount, limit, pass.uncounted(share.source, claim)));
    const short = claim.parts.filter((part) => !shares.includes(part) && !part.has(amount, limit));
    if (isInShare && short.length === 0) return true;
    const much = muchSlow * (shares.at(-1)?.source.quotas[limit] ?? 0);
    let found = 0;
    const chosen: { readonly each: Evictable; readonly uncounted: number }[] = [];
    for (const each of pass.candidates(claim, isInShare, much)) {
      // Since the pass, the connection may have been closed, used, or charged to another account.
      const [taken, state, isOwn] = [each.taken(limit), stateOf(each, now), each.claim === claim];
      const mayEnd = isOwn || (isInShare && state !== 'newlyIdle');
      if (each === exempt || taken === 0 || state === undefined || !mayEnd) continue;
      if (!short.every((part) => each.claim.parts.includes(part))) continue;
      chosen.push({ each, uncounted: state === 'newlyIdle' ? 0 : taken });
      found += taken;
      if (found >= amount || chosen.length === maxClosed) break;
    }
    if (found < amount) return false;
    for (const { each, uncounted } of chosen) {
      pass.forget(each.claim, uncounted);
      each.evict(limit);
    }
    return true;
  }
}

type State = 'idle' | 'newlyIdle' | 'slow';

/** The connections of one account that may be evicted, and what they hold of a limit. */
class Holdings implements Readonly<Record<State, Evictable[]>> {
  readonly idle: Evictable[] = [];
  readonly newlyIdle: Evictable[] = [];
  readonly slow: Evictable[] = [];
  slowBytes = 0;
  /** How much of all this does not count against the shares of other accounts. */
  uncounted = 0;
}

/** Connections with public keys that may be evicted, found in one pass over all of them. */
class Pass {
  readonly until: MonotonicMs;
  readonly #accounts = new Map<Claim, Holdings>();
  readonly #idle: { readonly each: Evictable; readonly holdings: Holdings }[] = [];
  /** For each whole that shares are parts of, how much does not count against the shares of other accounts. */
  readonly #uncounted = new Map<Part, number>();

  constructor(lists: readonly LinkedList<Evictable>[], limit: LimitIndex, now: MonotonicMs) {
    this.until = now + passLasts;
    for (const list of lists) {
      for (const each of list) {
        const taken = each.claim.tier === 'public' ? each.taken(limit) : 0;
        const state = taken === 0 ? undefined : stateOf(each, now);
        if (state === undefined) continue;
        const holdings = this.#accounts.get(each.claim) ?? new Holdings();
        this.#accounts.set(each.claim, holdings);
        holdings[state].push(each);
        if (state === 'idle') this.#idle.push({ each, holdings });
        if (state === 'slow') holdings.slowBytes += taken;
        if (state !== 'newlyIdle') holdings.uncounted += taken;
      }
    }
    for (const [claim, { uncounted }] of this.#accounts) this.#count(claim, uncounted);
  }

  #count({ shares = [] }: Claim, uncounted: number): void {
    for (const { source } of shares) this.#uncounted.set(source, (this.#uncounted.get(source) ?? 0) + uncounted);
  }

  /** How much of a whole does not count against an account's share. */
  uncounted(whole: Part, claim: Claim): number {
    return (this.#uncounted.get(whole) ?? 0) - (this.#accounts.get(claim)?.uncounted ?? 0);
  }

  /** Called when bytes, or other amounts, that are counted here are about to be given back. */
  forget(claim: Claim, amount: number): void {
    const holdings = this.#accounts.get(claim);
    if (holdings === undefined) return;
    holdings.uncounted -= amount;
    this.#count(claim, -amount);
  }

  /**
   * The connections that may be evicted for an account, in this order:
   * 1. Slow bodies of accounts that have too many of them, beginning with the account that has the most of them.
   * 2. Idle connections, the account's own first.
   * 3. Other slow bodies.
   * 4. The account's own connections that have only just become idle, and may be about to be used.
   *
   * @param isInShare whether other accounts' connections may be evicted, too
   * @param much the amount from which an account has too many slow bodies
   */
  *candidates(claim: Claim, isInShare: boolean, much: number): Generator<Evictable> {
    const own = this.#accounts.get(claim);
    const accounts = isInShare ? [...this.#accounts.values()] : own === undefined ? [] : [own];
    const slow = accounts.filter((each) => each.slowBytes > 0).toSorted((a, b) => b.slowBytes - a.slowBytes);
    for (const { slowBytes, slow: bodies } of slow) if (slowBytes >= much) yield* bodies;
    if (own !== undefined) yield* fromAnywhere(own.idle);
    if (isInShare) for (const { each, holdings } of fromAnywhere(this.#idle)) if (holdings !== own) yield each;
    for (const { slowBytes, slow: bodies } of slow) if (slowBytes < much) yield* bodies;
    if (own !== undefined) yield* fromAnywhere(own.newlyIdle);
  }
}

/**
 * The members of a list, beginning with a random one. If clients send requests again and again, the connection that has been idle longest is
 * likely to be the next one used.
 */
function* fromAnywhere<T>(list: readonly T[]): Generator<T> {
  const start = Math.floor(Math.random() * list.length);
  yield* list.slice(start);
  yield* list.slice(0, start);
}

/** The connection's state; undefined if it has a request that does not wait for its client, or whose body arrives fast enough. */
function stateOf({ isIdle, latestAt, arrived }: Evictable, now: MonotonicMs): State | undefined {
  const time = now - latestAt;
  if (isIdle) return time < newlyIdle ? 'newlyIdle' : 'idle';
  return time >= newBody && arrived / time < slowPace ? 'slow' : undefined;
}
