import { LinkedList } from '../../linked-list.ts';
import type { Claim } from './budgets.ts';
import { AnonymousPass, Passes, PublicPass, stateOf, type AnonymousBytes, type Evictable } from './evictable.ts';
import { indexes, type LimitIndex, type Part } from './parts.ts';

/**
 * If the slow bodies of one account take at least this fraction of what all public keys may use, the account has too many of them. An
 * honest account has few.
 */
const muchSlow = 1 / 16;

/** Maximum number of connections closed to make room for one amount. */
const maxClosed = 32;

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
  /** The latest pass over connections with public keys for each limit, and over connections without a key for each part. */
  readonly #publicPasses = new Passes<LimitIndex, PublicPass>();
  readonly #anonymousPasses = new Passes<Part, Partial<Record<AnonymousBytes, AnonymousPass>>>();

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
    const part = short.at(-1);
    if (part === undefined) return false;
    // Bytes that are charged to the last part are charged to the other parts too.
    const passes = this.#anonymousPasses.of(part, () => ({}));
    passes[from] ??= new AnonymousPass([this.anonymous, this.keyless], part, from, performance.now());
    for (const order of ['costliest', 'largest'] as const) {
      const chosen = choose(passes[from].first(maxClosed, order, exempt), needs, from);
      for (const each of chosen ?? [])
        each.evict(each.claim.tier !== 'anonymous' || each.isWhole ? indexes.buffered : undefined);
      if (chosen !== undefined) return true;
    }
    return false;
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
    const pass = this.#publicPasses.of(limit, () => new PublicPass([this.publicKeys, this.keyless], limit, now));
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
      if (each === exempt || each.list === undefined || taken === 0 || state === undefined || !mayEnd) continue;
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
