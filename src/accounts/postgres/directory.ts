import type { Account } from '../account.ts';
import type { DirectoryState, LookupResult, KeyDirectory, Uses } from '../key-directory.ts';
import { unwrapAccount } from '../unwrap-account.ts';
import type { Vault } from '../vault.ts';
import { BatchLoader } from './batch-loader.ts';
import { Connection } from './connection.ts';
import { accountsError } from './failures.ts';
import { KeyCache, type Entry, type KeyCacheOptions, type Reading } from './key-cache.ts';
import type { LookupOutcome, Monitor } from './monitor.ts';
import { toAccount, selectHolders, type HolderRow } from './rows.ts';
import type { MonotonicMs } from '../../times.ts';

/** The interval between heartbeats, in milliseconds. */
const heartbeat = 1_000;

/** What `unannounced_changes()` returns if every change was announced. */
const noneUnannounced = '0 0';

/** Once notifications during one query have named this many accounts, it no longer matters which ones. */
const mostChanged = 1_000;

/** A hash that no key has. Heartbeats look up this hash. */
const noHash = '';

/** Milliseconds from one query for keys to the next. So there are at most 200 queries per second, even if someone guesses many keys. */
const queryInterval = 5;

export interface PostgresDirectoryOptions extends KeyCacheOptions {
  readonly url: string;
  readonly vault: Vault;
  readonly uses: Uses;
  readonly monitor: Monitor;
  /** Called for each account that has changed, or with undefined if any account may have changed. */
  readonly heard: (account: string | undefined) => void;
}

/** Looks up API keys in PostgreSQL and caches those in use. Decision 0006 explains the design. */
export class PostgresDirectory implements KeyDirectory {
  readonly uses: Uses;
  readonly #vault: Vault;
  readonly #monotonic: () => MonotonicMs;
  readonly #monitor: Monitor;
  readonly #connection: Connection;
  readonly #announce: (account: string | undefined) => void;
  readonly #loader = new BatchLoader<Entry>((hashes) => this.#query(hashes), queryInterval);
  readonly #cache: KeyCache;
  /** The accounts named in notifications that have arrived since the current query began; `*` stands for any account. */
  #changedMeanwhile = new Set<string>();
  /** The accounts named in notifications that have not been handled yet; `*` stands for any account. */
  readonly #heard = new Set<string>();
  /** The number of the last change seen. */
  #lastChange = 0;
  /** Identifies the changes that were made without a notification. */
  #unannounced = noneUnannounced;
  /** Whether `#lastChange`, `#unannounced` and `#tables` must be read again. */
  #numbersDue = false;
  /** The ids of the tables. A restore in place fires no trigger, but it changes these ids. */
  #tables: string | undefined;
  /** Whether the last query failed, in which case further query errors are not reported. */
  #failing = false;
  /** Whether the loss of the connection has been reported. Failed attempts to reconnect are then not reported. */
  #unconnected = false;
  /** Whether the last look-up on this connection failed. */
  #cannotLookUp = false;
  #closed = false;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor({ url, vault, uses, monitor, heard, ...cache }: PostgresDirectoryOptions) {
    this.uses = uses;
    this.#vault = vault;
    this.#monotonic = cache.monotonic;
    this.#monitor = monitor;
    this.#announce = heard;
    this.#cache = new KeyCache(cache);
    this.#connection = new Connection(url, {
      connected: () => this.#connected(),
      lost: (error) => this.#lost(error),
      changed: (accounts) => this.#changed(accounts),
    });
  }

  /** Connects; resolves when the first attempt has succeeded or failed. From then on, a lost connection is reopened. */
  async open(): Promise<void> {
    this.#heartbeat = setInterval(() => this.#beat(), heartbeat);
    await this.#connection.open();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    await this.#connection.close();
  }

  get state(): DirectoryState {
    return this.#cache.state;
  }

  find(hash: string): LookupResult | Promise<LookupResult> {
    const cached = this.#cache.get(hash);
    const entry = cached ?? this.#unconfirmed(hash);
    if (entry === undefined) return this.#ask(hash);
    if (entry === 'unknown') return this.#answered('cached_unknown', undefined);
    if (this.#cache.isAgeing(entry)) this.#refresh(hash);
    return this.#answered(cached === undefined || this.#cache.span === undefined ? 'stale' : 'cached', entry.found);
  }

  holds(hash: string): boolean {
    return this.#cache.has(hash) || this.#unconfirmed(hash) !== undefined;
  }

  /** The entry to use while look-ups fail, for example because a table is locked, so that known keys need not be looked up again. */
  #unconfirmed(hash: string): Entry | undefined {
    return this.#cannotLookUp ? this.#cache.getStale(hash) : undefined;
  }

  /** Only cached keys are compared, because any other key is read from the database when it is used. */
  serves(account: Account): boolean {
    return this.#cache.serves(account);
  }

  forget(account: string): void {
    this.#changed(account);
    this.#dropHeard();
  }

  async #ask(hash: string): Promise<LookupResult> {
    try {
      const entry = await this.#loader.load(hash);
      return entry === undefined ? this.#answered('unknown', undefined) : this.#answered('found', entry.found);
    } catch {
      // The error is ignored here, because the query reports it to the monitor, once for all waiting look-ups.
      const entry = this.#cache.getStale(hash);
      return entry === undefined ? this.#answered('unavailable', 'unavailable') : this.#answered('stale', entry.found);
    }
  }

  /** Looks up a key again for later uses. Errors are ignored here, because the query reports them. */
  #refresh(hash: string): void {
    this.#loader.load(hash).catch(() => {});
  }

  #answered(outcome: LookupOutcome, found: LookupResult): LookupResult {
    this.#monitor.lookup(found === 'unavailable' ? 'unavailable' : outcome);
    return found;
  }

  async #query(hashes: readonly string[]): Promise<ReadonlyMap<string, Entry>> {
    await this.#connection.ready();
    const { span } = this.#cache;
    this.#changedMeanwhile = new Set();
    const asked = this.#monotonic();
    if (span === undefined) throw new Error('not connected to the database');
    const done = this.#monitor.query();
    const rows = await this.#connection
      .query<HolderRow>({
        name: 'look-up',
        text: selectHolders,
        values: [hashes.map((hash) => Buffer.from(hash, 'hex'))],
      })
      .catch((error: unknown) => {
        this.#cannotLookUp = true;
        return this.#failed(error);
      })
      .finally(done);
    this.#failing = false;
    this.#cannotLookUp = false;
    span.heardAt = this.#monotonic();
    const read = { span, at: asked };
    const entries = new Map(rows.map((row) => [row.key.hash, this.#toEntry(row, read)] as const));
    // If a notification of a change has arrived during the query, the rows of the changed account may be out of date, and a key that was
    // not found may exist now. Such results serve the waiting look-ups but are not cached. The results for other accounts are cached,
    // because changes to one account must not cause the keys of all accounts to be looked up again and again.
    const changed = this.#changedMeanwhile;
    for (const hash of span === this.#cache.span && !changed.has('*') ? hashes : []) {
      const entry = entries.get(hash);
      if (entry === undefined ? changed.size === 0 : !changed.has(entry.account)) this.#keep(hash, entry, read);
    }
    if (this.#numbersDue) await this.#readNumbers();
    return entries;
  }

  /**
   * Reads the number of the last change. If the number is lower than before, changes were lost. If changes were made without a notification
   * in the meantime, or if the tables have different ids, any account may have changed.
   */
  async #readNumbers(): Promise<void> {
    this.#numbersDue = false;
    const [row] = await this.#connection
      .query<{ last: string; unannounced: string; tables: string }>({
        name: 'last-changes',
        text: `SELECT envelope_sidecar.last_change() AS last, envelope_sidecar.unannounced_changes() AS unannounced,
          (SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_class
            WHERE relnamespace = 'envelope_sidecar'::regnamespace AND relkind = 'r') AS tables`,
      })
      .catch((error: unknown) => {
        this.#numbersDue = true;
        return this.#failed(error);
      });
    const last = Number(row?.last);
    if (last < this.#lastChange) {
      this.#monitor.lost(this.#lastChange - last);
      // If the connection has stayed open, nothing else begins a new span.
      this.#cache.beginSpan();
    }
    const areOthers = this.#tables !== undefined && row?.tables !== this.#tables;
    if (areOthers || row?.unannounced !== this.#unannounced) this.#changed('*');
    this.#tables = row?.tables;
    this.#lastChange = last;
    this.#unannounced = row?.unannounced ?? noneUnannounced;
  }

  #toEntry(row: HolderRow, read: Reading): Entry {
    const account = row.account_id;
    try {
      const stored = toAccount({ ...row, keys: [row.key] });
      const [key] = stored.keys;
      if (key === undefined) throw new Error('a look-up by key returned no key');
      return { account, found: { account: unwrapAccount(stored, this.#vault), key }, read };
    } catch (error) {
      // Only this account is affected. It must not be treated as one that does not encrypt.
      this.#monitor.failed(error);
      return { account, found: 'unavailable', read };
    }
  }

  #keep(hash: string, entry: Entry | undefined, read: Reading): void {
    if (entry === undefined) this.#cache.keepUnknown(hash, read);
    else this.#monitor.changed(this.#cache.keep(hash, entry));
  }

  #connected(): void {
    // Notifications may have been missed while there was no connection.
    this.#cache.beginSpan();
    this.#cannotLookUp = false;
    this.#unconnected = false;
    this.#numbersDue = true;
    this.#monitor.connected();
    this.#announce(undefined);
  }

  #lost(error: unknown): void {
    this.#cache.endSpan();
    if (!this.#unconnected) this.#monitor.disconnected(accountsError(error));
    this.#unconnected = true;
  }

  #changed(accounts: string): void {
    this.#numbersDue = true;
    this.#loader.invalidate();
    // All notifications from one read of the socket are handled together, because any role of the database may send any number of them.
    if (this.#heard.size === 0) queueMicrotask(() => this.#dropHeard());
    for (const account of accounts.split(' ')) {
      // Each account is dropped from the cache, because an entry that remains is used again if the connection is lost.
      this.#heard.add(account);
      // Otherwise, a role that may send notifications could fill the memory during a query.
      this.#changedMeanwhile.add(this.#changedMeanwhile.size < mostChanged ? account : '*');
    }
  }

  #dropHeard(): void {
    this.#cache.dropUnknown();
    if (this.#heard.has('*')) this.#cache.beginSpan();
    for (const account of this.#heard) {
      this.#cache.drop(account);
      this.#announce(account === '*' ? undefined : account);
    }
    this.#heard.clear();
  }

  #failed(error: unknown): never {
    // A lost connection is reported separately, and a query that `close` has interrupted is not reported.
    if (this.#cache.span !== undefined && !this.#failing && !this.#closed) this.#monitor.failed(accountsError(error));
    this.#failing = true;
    throw error;
  }

  /** Sends a heartbeat, which also finds changes made without a notification. If there is no response, the connection counts as lost. */
  #beat(): void {
    if (this.#cache.span === undefined) return;
    this.#numbersDue = true;
    this.#refresh(noHash);
  }
}
