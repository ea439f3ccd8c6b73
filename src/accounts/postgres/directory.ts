import { LRUCache } from 'lru-cache';
import type { Account } from '../account.ts';
import type {
  DirectoryState,
  Found,
  KeyHolder,
  UnexpectedEnvelopes,
  Uses,
  VersionedDirectory,
} from '../key-directory.ts';
import { differencesButKeys, keyDifferences } from '../differences.ts';
import { openAccount } from '../open-account.ts';
import type { Vault } from '../vault.ts';
import { Batches } from './batches.ts';
import { Connection } from './connection.ts';
import { accountsError } from './failures.ts';
import { LastKnown } from './last-known.ts';
import type { LookupOutcome, Monitor } from './monitor.ts';
import { accountOf, selectHolders, type HolderRow } from './rows.ts';

/** The interval of heartbeats if there are no other queries. Milliseconds. */
const heartbeat = 1_000;

/** A hash that no key has. A heartbeat looks it up. */
const noHash = '';

export interface PostgresDirectoryOptions {
  readonly url: string;
  readonly vault: Vault;
  /** The most existing API keys that are cached, and the most unknown ones. */
  readonly cache: number;
  /** How long cached keys work while the database is unreachable. Milliseconds. */
  readonly staleFor: number;
  readonly uses: Uses & UnexpectedEnvelopes;
  /** Monotonic milliseconds: a wall clock that is put back must not lengthen `staleFor`. */
  readonly stopwatch: () => number;
  readonly monitor: Monitor;
}

/**
 * A period in which no notification of a change is missed: from the start of a connection to its loss. Entries that
 * were read in it are valid until its end or a notified change.
 */
interface Span {
  /** When the database last responded in this period. */
  heardAt: number;
}

interface Entry {
  readonly account: string;
  /** `unavailable`: the key exists, but the database's row of its account cannot be used. */
  readonly found: KeyHolder | 'unavailable';
  /** When it was read. */
  readonly span: Span;
}

/** Looks up API keys in PostgreSQL and caches those in use. Decision 0006 has the reasons for the design. */
export class PostgresDirectory implements VersionedDirectory {
  readonly uses: Uses;
  readonly unexpected: UnexpectedEnvelopes;
  readonly #vault: Vault;
  readonly #staleFor: number;
  readonly #stopwatch: () => number;
  readonly #monitor: Monitor;
  readonly #connection: Connection;
  readonly #batches = new Batches<Entry>((hashes) => this.#query(hashes));
  readonly #known: LRUCache<string, Entry>;
  /** Unknown keys have a separate cache, so that guesses do not evict known keys. */
  readonly #unknown: LRUCache<string, Span>;
  readonly #lastKnown = new LastKnown();
  /** The hashes in `#known`, by account. */
  readonly #hashes = new Map<string, Set<string>>();
  /** The current span; undefined without a connection. */
  #span: Span | undefined;
  /** The current or the latest span. */
  #latest: Span | undefined;
  /** Counts notifications. */
  #changes = 0;
  /** The notified accounts whose entries are not dropped yet. */
  readonly #heard = new Set<string>();
  /** Whether the last query, or the last attempt to connect, failed with an error that was reported. */
  #failing = false;
  #unconnected = false;
  #closed = false;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor({ url, vault, cache, staleFor, uses, stopwatch, monitor }: PostgresDirectoryOptions) {
    this.uses = uses;
    this.unexpected = uses;
    this.#vault = vault;
    this.#staleFor = staleFor;
    this.#stopwatch = stopwatch;
    this.#monitor = monitor;
    this.#known = new LRUCache({ max: cache, dispose: ({ account }, hash) => this.#forgotten(account, hash) });
    this.#unknown = new LRUCache({ max: cache });
    this.#connection = new Connection(url, {
      connected: () => this.#connected(),
      lost: (error) => this.#lost(error),
      changed: (accounts) => this.#changed(accounts),
    });
  }

  /** Connects; resolves when the first attempt has succeeded or failed. From then on a lost connection is reopened. */
  async open(): Promise<void> {
    this.#heartbeat = setInterval(() => this.#listen(), heartbeat);
    await this.#connection.open();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    await this.#connection.close();
  }

  get state(): DirectoryState {
    return {
      connected: this.#span !== undefined,
      heardAt: this.#latest?.heardAt,
      known: this.#known.size,
      unknown: this.#unknown.size,
    };
  }

  find(hash: string): Found | Promise<Found> {
    const entry = this.#known.get(hash);
    if (this.#span === undefined) {
      if (this.#isUsable(entry)) return this.#answered('stale', entry.found);
    } else if (entry?.span === this.#span) {
      return this.#answered('cached', entry.found);
    } else if (this.#unknown.get(hash) === this.#span) {
      return this.#answered('cached_unknown', undefined);
    }
    return this.#ask(hash);
  }

  holds(hash: string): boolean {
    const entry = this.#known.peek(hash);
    if (this.#span === undefined) return this.#isUsable(entry);
    return entry?.span === this.#span || this.#unknown.peek(hash) === this.#span;
  }

  /** A key that is not cached is read when it is used. Without a connection no newer version can be read. */
  serves(account: Account): boolean {
    const span = this.#span;
    if (span === undefined) return false;
    if (account.keys.some(({ hash }) => this.#unknown.peek(hash) === span)) return false;
    return [...(this.#hashes.get(account.id) ?? [])].every((hash) => {
      const entry = this.#known.peek(hash);
      if (entry?.span !== span) return true;
      if (entry.found === 'unavailable') return false;
      const key = account.keys.find((each) => each.hash === hash);
      const different = [
        ...differencesButKeys(entry.found.account, account),
        ...keyDifferences(account.id, entry.found.key, key),
      ];
      return different.length === 0;
    });
  }

  async #ask(hash: string): Promise<Found> {
    try {
      const entry = await this.#batches.ask(hash);
      return entry === undefined ? this.#answered('unknown', undefined) : this.#answered('found', entry.found);
    } catch {
      // The query reports it to the monitor, once for all waiting look-ups.
      const entry = this.#known.get(hash);
      return this.#isUsable(entry)
        ? this.#answered('stale', entry.found)
        : this.#answered('unavailable', 'unavailable');
    }
  }

  #answered(outcome: LookupOutcome, found: Found): Found {
    this.#monitor.lookup(found === 'unavailable' ? 'unavailable' : outcome);
    return found;
  }

  /** Whether an entry may be used although the database cannot confirm it. */
  #isUsable(entry: Entry | undefined): entry is Entry {
    return entry !== undefined && this.#stopwatch() - entry.span.heardAt < this.#staleFor;
  }

  async #query(hashes: readonly string[]): Promise<ReadonlyMap<string, Entry>> {
    await this.#connection.ready();
    const [span, changes] = [this.#span, this.#changes];
    if (span === undefined) throw new Error('not connected to the database');
    const done = this.#monitor.query();
    const rows = await this.#connection
      .query<HolderRow>({
        name: 'look-up',
        text: selectHolders,
        values: [hashes.map((hash) => Buffer.from(hash, 'hex'))],
      })
      .catch((error: unknown) => this.#failed(error))
      .finally(done);
    this.#failing = false;
    span.heardAt = this.#stopwatch();
    const entries = new Map(rows.map((row) => [row.key.hash, this.#entryOf(row, span)] as const));
    // After a change was notified, the rows may be out of date. They serve the waiting look-ups but are not cached.
    if (span === this.#span && changes === this.#changes) {
      for (const hash of hashes) this.#keep(hash, entries.get(hash), span);
    }
    return entries;
  }

  #entryOf(row: HolderRow, span: Span): Entry {
    const account = row.account_id;
    try {
      const stored = accountOf({ ...row, keys: [row.key] });
      const [key] = stored.keys;
      if (key === undefined) throw new Error('a look-up by key returned none');
      return { account, found: { account: openAccount(stored, this.#vault), key }, span };
    } catch (error) {
      // Other accounts are not affected. This one must not be treated as one that does not encrypt.
      this.#monitor.failed(error);
      return { account, found: 'unavailable', span };
    }
  }

  #keep(hash: string, entry: Entry | undefined, span: Span): void {
    if (entry === undefined) {
      this.#known.delete(hash);
      this.#unknown.set(hash, span);
      return;
    }
    this.#remember(this.#known.peek(hash));
    this.#known.set(hash, entry);
    if (entry.found !== 'unavailable') this.#monitor.changed(this.#lastKnown.differences(entry.found));
    const hashes = this.#hashes.get(entry.account);
    if (hashes === undefined) this.#hashes.set(entry.account, new Set([hash]));
    else hashes.add(hash);
  }

  #remember(entry: Entry | undefined): void {
    if (entry !== undefined && entry.found !== 'unavailable') this.#lastKnown.remember(entry.found);
  }

  #forgotten(account: string, hash: string): void {
    const hashes = this.#hashes.get(account);
    hashes?.delete(hash);
    if (hashes?.size === 0) this.#hashes.delete(account);
  }

  #connected(): void {
    // Notifications since the last connection may have been missed.
    this.#begin();
    this.#unconnected = false;
    this.#monitor.connected();
  }

  /** Begins a span. Entries of earlier spans are used only if the database is unreachable. */
  #begin(): void {
    this.#span = { heardAt: this.#stopwatch() };
    this.#latest = this.#span;
  }

  #lost(error: unknown): void {
    this.#span = undefined;
    if (!this.#unconnected) this.#monitor.disconnected(accountsError(error));
    this.#unconnected = true;
  }

  #changed(accounts: string): void {
    this.#changes += 1;
    this.#batches.outdate();
    // All notifications of one socket read are handled together: any role of the database may send any number of them.
    if (this.#heard.size === 0) queueMicrotask(() => this.#forgetHeard());
    this.#heard.add(accounts);
  }

  #forgetHeard(): void {
    // Clearing the cache costs as much as its capacity, even if it is empty.
    if (this.#unknown.size > 0) this.#unknown.clear();
    if (this.#heard.has('*')) this.#begin();
    for (const accounts of this.#heard) {
      for (const account of accounts.split(' ')) {
        for (const hash of this.#hashes.get(account) ?? []) {
          this.#remember(this.#known.peek(hash));
          this.#known.delete(hash);
        }
      }
    }
    this.#heard.clear();
  }

  #failed(error: unknown): never {
    // A lost connection is reported separately. A query interrupted by `close` belongs to a disconnected client.
    if (this.#span !== undefined && !this.#failing && !this.#closed) this.#monitor.failed(accountsError(error));
    this.#failing = true;
    throw error;
  }

  /** Sends a heartbeat if the database has been silent for a while. Without a response the connection counts as lost. */
  #listen(): void {
    if (this.#span === undefined || this.#stopwatch() - this.#span.heardAt < heartbeat) return;
    // The query itself reports its failure.
    this.#batches.ask(noHash).catch(() => {});
  }
}
