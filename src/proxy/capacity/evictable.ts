import type { Linked, LinkedList } from '../../linked-list.ts';
import type { MonotonicMs } from '../../times.ts';
import type { Claim } from './budgets.ts';
import type { LimitIndex, Part } from './parts.ts';

/** Bytes per millisecond. A body that arrives more slowly than this has no good reason to hold what it has taken. */
const slowPace = 4;

/** Milliseconds that the first bytes of a body may take to arrive. In most requests, they come with the head. */
const newBody = 100;

/** After this many milliseconds of idleness, a client is unlikely to be just about to use its connection again. */
const newlyIdle = 500;

/** If a client has sent too many wrong keys, the time for which it has held its bytes is multiplied by this factor. */
const suspectFactor = 1_000_000;

/** For this many milliseconds of a turn of the event loop, the connections are not looked through again. */
const passLasts = 10;

/**
 * Which bytes of requests without a valid key may be evicted. `unread`: only unread responses, to make room for a body of such a request.
 * `requests`: everything that such requests hold, to make room for an unread response. `all`: also incomplete heads, to make room for a
 * head, or for a body that may be a merchant's.
 */
export type AnonymousBytes = 'unread' | 'requests' | 'all';

/** A connection that may be closed to make room for others. `previous` and `next` belong to the list that it is in. */
export interface Evictable extends Linked<Evictable> {
  /** Undefined if the connection may not be closed now. */
  readonly list: LinkedList<Evictable> | undefined;
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

/**
 * Keeps what was found in the latest passes over all connections. There may be thousands of connections, and each may need room for a
 * request, or for each piece of a head, in the same turn.
 */
export class Passes<Key, Found> {
  readonly #latest = new Map<Key, { readonly until: MonotonicMs; readonly found: Found }>();

  /** @param look looks through the connections */
  of(key: Key, look: () => Found): Found {
    const now = performance.now();
    const latest = this.#latest.get(key);
    if (latest !== undefined && now < latest.until) return latest.found;
    const found = look();
    this.#latest.set(key, { until: now + passLasts, found });
    // Otherwise, closed connections would stay in memory.
    setImmediate(() => this.#latest.delete(key));
    return found;
  }
}

/** A connection without a key that holds bytes which may be evicted. */
interface Holder {
  readonly each: Evictable;
  readonly bytes: number;
  /** For how many milliseconds it has held them. */
  readonly time: number;
}

/** Connections without a key that may be evicted, found in one pass over all of them. */
export class AnonymousPass {
  readonly #lists: readonly (LinkedList<Evictable> | undefined)[];
  readonly #part: Part;
  readonly #from: AnonymousBytes;
  readonly #holders: readonly Holder[];
  #orders: Partial<Record<'costliest' | 'largest', Evictable[]>> = {};

  constructor(lists: readonly LinkedList<Evictable>[], part: Part, from: AnonymousBytes, now: MonotonicMs) {
    this.#lists = lists;
    this.#part = part;
    this.#from = from;
    this.#holders = lists.flatMap((list) =>
      [...list].map((each) => ({ each, bytes: each.yields(part, from), time: now - each.since })),
    );
  }

  /**
   * The first connections in descending order.
   *
   * @param order `costliest`: those that have held the most bytes for the longest time. `largest`: those that hold the most bytes, in case
   * the costliest hold too little.
   * @param exempt is left out
   */
  first(count: number, order: 'costliest' | 'largest', exempt: Evictable): readonly Evictable[] {
    const last = (this.#orders[order] ??= this.#sort(order));
    // Since the pass, connections may have been closed, may have given their bytes back, or may have presented a secret key.
    const holds = (each: Evictable): boolean =>
      this.#lists.includes(each.list) && each.yields(this.#part, this.#from) > 0;
    for (let each = last.at(-1); each !== undefined && !holds(each); each = last.at(-1)) last.pop();
    const found: Evictable[] = [];
    for (let i = last.length - 1; i >= 0 && found.length < count; i -= 1) {
      const each = last[i];
      if (each !== undefined && each !== exempt && holds(each)) found.push(each);
    }
    return found;
  }

  /** The connections in ascending order. */
  #sort(order: 'costliest' | 'largest'): Evictable[] {
    const rank = ({ each, bytes, time }: Holder): number =>
      order === 'largest' ? bytes : bytes * time * (each.isSuspect ? suspectFactor : 1);
    return (
      this.#holders
        // A merchant's head that arrives in two pieces is held only for a moment.
        .filter(({ bytes, time }) => bytes > 0 && (order === 'costliest' ? time > 0 : time > newBody))
        .map((holder) => ({ each: holder.each, rank: rank(holder) }))
        .toSorted((a, b) => b.rank - a.rank)
        .map(({ each }) => each)
        .toReversed()
    );
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
export class PublicPass {
  readonly #accounts = new Map<Claim, Holdings>();
  readonly #idle: { readonly each: Evictable; readonly holdings: Holdings }[] = [];
  /** For each whole that shares are parts of, how much does not count against the shares of other accounts. */
  readonly #uncounted = new Map<Part, number>();

  constructor(lists: readonly LinkedList<Evictable>[], limit: LimitIndex, now: MonotonicMs) {
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
export function stateOf({ isIdle, latestAt, arrived }: Evictable, now: MonotonicMs): State | undefined {
  const time = now - latestAt;
  if (isIdle) return time < newlyIdle ? 'newlyIdle' : 'idle';
  return time >= newBody && arrived / time < slowPace ? 'slow' : undefined;
}
