import { LRUCache } from 'lru-cache';
import type { Account } from '../account.ts';
import { differencesButKeys, keyDifferences, keysByHash, type Difference } from '../differences.ts';
import type { Principal } from '../key-directory.ts';
import { LastKnown } from './last-known.ts';
import type { MonotonicMs } from '../../times.ts';

/**
 * A period in which no notification of a change is missed, from the start of a connection to its loss. Entries that were read in this
 * period are valid until it ends or a change is announced.
 */
export interface Span {
  /** Until when all notifications have certainly arrived. */
  heardAt: MonotonicMs;
}

/** When a key was read from the database, and in which span. */
export interface Reading {
  /** A span that never was the current one if there was none. */
  readonly span: Span;
  /** When the query began. */
  readonly at: MonotonicMs;
}

/**
 * How long a cached key can be used before it must be looked up again, in milliseconds. The limit is needed in case a change was not
 * announced, for example because no trigger ran. A key in use is looked up again after only half of this time, so that requests can use the
 * old entry in the meantime.
 */
const maxAge = 60_000;

/** A cached key that exists, as opposed to an unknown one. */
export interface Entry {
  readonly account: string;
  /** `unavailable` if the key exists, but the row of its account cannot be used. */
  readonly found: Principal | 'unavailable';
  readonly read: Reading;
}

export interface KeyCacheOptions {
  /** Maximum number of API keys that are cached. The same number of unknown keys may be cached in addition. */
  readonly cache: number;
  /** How long cached keys can be used while the database is unreachable, in milliseconds. */
  readonly staleFor: number;
  /** A monotonic clock, because a wall clock that is set back would lengthen `staleFor`. */
  readonly monotonic: () => MonotonicMs;
}

/** Caches the API keys in use, by hash, and decides whether they may be used without asking the database again. */
export class KeyCache {
  readonly #staleFor: number;
  readonly #monotonic: () => MonotonicMs;
  readonly #known: LRUCache<string, Entry>;
  /** Unknown keys have a separate cache, so that guesses do not evict known keys. */
  readonly #unknown: LRUCache<string, Reading>;
  readonly #lastKnown = new LastKnown();
  /** The hashes in `#known`, by account. */
  readonly #hashes = new Map<string, Set<string>>();
  #span: Span | undefined;

  constructor({ cache, staleFor, monotonic }: KeyCacheOptions) {
    this.#staleFor = staleFor;
    this.#monotonic = monotonic;
    this.#known = new LRUCache({ max: cache, dispose: ({ account }, hash) => this.#disposed(account, hash) });
    this.#unknown = new LRUCache({ max: cache });
  }

  /** The current span; undefined if there is no connection. */
  get span(): Span | undefined {
    return this.#span;
  }

  /** The number of keys that are cached as existing, and as not existing. */
  get sizes(): { readonly known: number; readonly unknown: number } {
    return { known: this.#known.size, unknown: this.#unknown.size };
  }

  /** Begins a span. Entries of earlier spans are used only if the database cannot be asked. */
  beginSpan(): void {
    this.#span = { heardAt: this.#monotonic() };
  }

  /** Ends the current span, because the connection was lost. */
  endSpan(): void {
    this.#span = undefined;
  }

  /** A key's entry if it is valid. Undefined if the database must be asked. */
  get(hash: string): Entry | 'unknown' | undefined {
    const entry = this.#known.get(hash);
    if (this.#isValid(entry?.read)) return entry;
    return this.#isValid(this.#unknown.get(hash)) ? 'unknown' : undefined;
  }

  /** Whether a valid entry should be looked up again in advance, so that later uses of the key need not wait for the look-up. */
  isAgeing({ read }: Entry): boolean {
    return this.#span !== undefined && this.#monotonic() - read.at >= maxAge / 2;
  }

  /** The entry of a key that the database cannot confirm; undefined if the entry is too old, or if there is none. */
  getStale(hash: string): Entry | undefined {
    const entry = this.#known.get(hash);
    return this.#isUsable(entry) ? entry : undefined;
  }

  /** Whether `get` would find a key. This check does not count as a use of the key. */
  has(hash: string): boolean {
    return this.#isValid(this.#known.peek(hash)?.read) || this.#isValid(this.#unknown.peek(hash));
  }

  /** Whether all of the account's cached keys match this version, including those that are used only if the database cannot be asked. */
  serves(account: Account): boolean {
    if (account.keys.some(({ hash }) => this.#isValid(this.#unknown.peek(hash)))) return false;
    const keys = keysByHash(account);
    return [...(this.#hashes.get(account.id) ?? [])].every((hash) => {
      const entry = this.#known.peek(hash);
      if (!this.#isUsable(entry)) return true;
      if (entry.found === 'unavailable') return false;
      const different = [
        ...differencesButKeys(entry.found.account, account),
        ...keyDifferences(account.id, entry.found.key, keys.get(hash)),
      ];
      return different.length === 0;
    });
  }

  /** Caches a key that exists. @returns how the key and its account differ from their last known versions */
  keep(hash: string, entry: Entry): readonly Difference[] {
    this.#remember(hash);
    this.#known.set(hash, entry);
    const hashes = this.#hashes.get(entry.account);
    if (hashes === undefined) this.#hashes.set(entry.account, new Set([hash]));
    else hashes.add(hash);
    return entry.found === 'unavailable' ? [] : this.#lastKnown.differences(entry.found);
  }

  /** Records in the cache that a key does not exist. */
  keepUnknown(hash: string, read: Reading): void {
    this.#known.delete(hash);
    this.#unknown.set(hash, read);
  }

  /** Drops the keys of a changed account. */
  drop(account: string): void {
    for (const hash of this.#hashes.get(account) ?? []) {
      this.#remember(hash);
      this.#known.delete(hash);
    }
  }

  /** Drops the unknown keys, because one of them may have been added to the changed account. */
  dropUnknown(): void {
    // Clearing the cache takes time proportional to its capacity, even if the cache is empty.
    if (this.#unknown.size > 0) this.#unknown.clear();
  }

  /** Whether the result of this read may be used without asking the database again. */
  #isValid(read: Reading | undefined): boolean {
    return read !== undefined && read.span === this.#span && this.#monotonic() - read.at < maxAge;
  }

  /** Whether an entry may be used although the database cannot confirm it. */
  #isUsable(entry: Entry | undefined): entry is Entry {
    return entry !== undefined && this.#monotonic() - entry.read.span.heardAt < this.#staleFor;
  }

  #remember(hash: string): void {
    const entry = this.#known.peek(hash);
    if (entry !== undefined && entry.found !== 'unavailable') this.#lastKnown.remember(entry.found);
  }

  #disposed(account: string, hash: string): void {
    const hashes = this.#hashes.get(account);
    hashes?.delete(hash);
    if (hashes?.size === 0) this.#hashes.delete(account);
  }
}
