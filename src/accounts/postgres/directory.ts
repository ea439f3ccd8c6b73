import type { Account } from '../account.ts';
import type { DirectoryState, LookupResult, KeyDirectory, Uses } from '../key-directory.ts';
import { unwrapAccount } from '../unwrap-account.ts';
import type { Vault } from '../vault.ts';
import { BatchLoader } from './batch-loader.ts';
import { Connection } from './connection.ts';
import { ChangeNumbers, selectNumbers, type NumbersRow } from './change-numbers.ts';
import { accountsError } from './failures.ts';
import { KeyCache, type Entry, type KeyCacheOptions, type Reading } from './key-cache.ts';
import type { LookupOutcome, Monitor } from './monitor.ts';
import { toAccount, selectHolders, type HolderRow } from './rows.ts';
import type { MonotonicMs } from '../../times.ts';

/** The interval between heartbeats, in milliseconds. */
const heartbeat = 1_000;

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
  readonly #lookUps: Connection;
  /**
   * Receives notifications of changes. Look-ups have a connection of their own, because any role of the database may send so many
   * notifications that the result of a look-up would arrive too late behind them.
   */
  readonly #news: Connection;
  readonly #announce: (account: string | undefined) => void;
  readonly #loader = new BatchLoader<Entry>((hashes) => this.#query(hashes), queryInterval);
  readonly #cache: KeyCache;
  /** The accounts named in notifications that have arrived since the current query began; `*` stands for any account. */
  #changedMeanwhile = new Set<string>();
  /** The accounts named in notifications that have not been handled yet; `*` stands for any account. */
  readonly #heard = new Set<string>();
  readonly #staleFor: number;
  /** When the database last responded; undefined if it never has. */
  #heardAt: MonotonicMs | undefined;
  readonly #numbers = new ChangeNumbers();
  /** Whether these numbers are being read. */
  #isReadingNumbers = false;
  /** The connections whose last query failed, of which further errors are not reported. */
  readonly #failing = new Set<Connection>();
  /** Whether the loss of a connection has been reported. Failed attempts to reconnect are then not reported. */
  #unconnected = false;
  /** Whether the last look-up failed, or the connection for look-ups is lost. */
  #cannotLookUp = false;
  #closed = false;
  /** Undefined until the first attempts to connect are over. */
  #heartbeat: NodeJS.Timeout | undefined;

  constructor({ url, vault, uses, monitor, heard, ...cache }: PostgresDirectoryOptions) {
    this.uses = uses;
    this.#vault = vault;
    this.#monotonic = cache.monotonic;
    this.#monitor = monitor;
    this.#announce = heard;
    this.#cache = new KeyCache(cache);
    this.#staleFor = cache.staleFor;
    this.#lookUps = new Connection(url, {
      connected: () => {
        this.#cannotLookUp = false;
        // After a failover, the other connection may lead to the old server, which sends no notifications of changes in the new one.
        if (this.#heartbeat !== undefined) this.#news.renew();
        this.#connected();
      },
      lost: (error) => {
        this.#cannotLookUp = true;
        this.#lost(error);
      },
    });
    this.#news = new Connection(url, {
      connected: () => {
        // Notifications may have been missed while there was no connection.
        this.#cache.beginSpan();
        void this.#readNumbers();
        this.#announce(undefined);
        this.#connected();
      },
      lost: (error) => {
        this.#cache.endSpan();
        this.#lost(error);
      },
      changed: (accounts) => this.#changed(accounts),
    });
  }

  /** Connects; resolves when the first attempts have succeeded or failed. From then on, a lost connection is reopened. */
  async open(): Promise<void> {
    await Promise.all([this.#lookUps.open(), this.#news.open()]);
    if (!this.#closed) this.#heartbeat = setInterval(() => this.#beat(), heartbeat);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#heartbeat);
    await Promise.all([this.#lookUps.close(), this.#news.close()]);
  }

  get state(): DirectoryState {
    const heardAt = this.#heardAt;
    const isUnlimited = this.#lookUps.isOpen || heardAt === undefined;
    const usableFor = isUnlimited ? undefined : Math.max(0, heardAt + this.#staleFor - this.#monotonic());
    return { connected: this.#lookUps.isOpen && this.#news.isOpen, heardAt, usableFor, ...this.#cache.sizes };
  }

  find(hash: string): LookupResult | Promise<LookupResult> {
    const cached = this.#cache.get(hash);
    const entry = cached ?? this.#unconfirmed(hash);
    if (entry === undefined) return this.#ask(hash);
    if (entry === 'unknown') return this.#answered('cached_unknown', undefined);
    if (this.#cache.isAgeing(entry)) this.#refresh(hash);
    return this.#answered(cached === undefined ? 'stale' : 'cached', entry.found);
  }

  holds(hash: string): boolean {
    return this.#cache.has(hash) || this.#unconfirmed(hash) !== undefined;
  }

  /** The entry to use while look-ups fail, for example because a table is locked, so that known keys need not be looked up again. */
  #unconfirmed(hash: string): Entry | undefined {
    return this.#cannotLookUp ? this.#cache.getStale(hash) : undefined;
  }

  /** Only cached keys are compared, because any other key is read from the database when it is used. False if that is impossible. */
  serves(account: Account): boolean {
    return this.#lookUps.isOpen && this.#cache.serves(account);
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
    await this.#lookUps.ready();
    if (!this.#lookUps.isOpen) throw new Error('not connected to the database');
    const { span } = this.#cache;
    this.#changedMeanwhile = new Set();
    const asked = this.#monotonic();
    const done = this.#monitor.query();
    const rows = await this.#lookUps
      .query<HolderRow>({
        name: 'look-up',
        text: selectHolders,
        values: [hashes.map((hash) => Buffer.from(hash, 'hex'))],
      })
      .catch((error: unknown) => {
        this.#cannotLookUp = true;
        this.#failed(this.#lookUps, error);
        throw error;
      })
      .finally(done);
    this.#failing.delete(this.#lookUps);
    this.#cannotLookUp = false;
    this.#heardAt = this.#monotonic();
    const read = { span: span ?? { heardAt: asked }, at: asked };
    const entries = new Map(rows.map((row) => [row.key.hash, this.#toEntry(row, read)] as const));
    // If a notification of a change has arrived during the query, the rows of the changed account may be out of date, and a key that was
    // not found may exist now. Such results serve the waiting look-ups but are not cached. The results for other accounts are cached,
    // because changes to one account must not cause the keys of all accounts to be looked up again and again.
    const changed = this.#changedMeanwhile;
    for (const hash of span === this.#cache.span && !changed.has('*') ? hashes : []) {
      const entry = entries.get(hash);
      if (entry === undefined ? changed.size === 0 : !changed.has(entry.account)) this.#keep(hash, entry, read);
    }
    return entries;
  }

  /** Reads the numbers of changes, which arrive after all earlier notifications. */
  async #readNumbers(): Promise<void> {
    const { span } = this.#cache;
    if (span === undefined || this.#isReadingNumbers) return;
    this.#isReadingNumbers = true;
    const asked = this.#monotonic();
    const [row] = await this.#news
      .query<NumbersRow>({ name: 'last-changes', text: selectNumbers })
      .catch((error: unknown): NumbersRow[] => {
        this.#failed(this.#news, error);
        return [];
      });
    this.#isReadingNumbers = false;
    if (row === undefined) return;
    this.#failing.delete(this.#news);
    span.heardAt = asked;
    this.#heardAt = this.#monotonic();
    const { lost, areUnannounced } = this.#numbers.compare(row);
    if (lost > 0) {
      this.#monitor.lost(lost);
      // If the connection has stayed open, nothing else begins a new span.
      this.#cache.beginSpan();
    }
    if (areUnannounced) this.#changed('*');
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
    if (!this.state.connected) return;
    this.#unconnected = false;
    this.#monitor.connected();
  }

  #lost(error: unknown): void {
    if (!this.#unconnected && !this.#closed) this.#monitor.disconnected(accountsError(error));
    this.#unconnected = true;
  }

  #changed(accounts: string): void {
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
    if (this.#heard.has('*') && this.#cache.span !== undefined) this.#cache.beginSpan();
    for (const account of this.#heard) {
      this.#cache.drop(account);
      this.#announce(account === '*' ? undefined : account);
    }
    this.#heard.clear();
  }

  #failed(connection: Connection, error: unknown): void {
    // A lost connection is reported separately, and a query that `close` has interrupted is not reported.
    const isNew = !this.#failing.has(connection);
    if (isNew && connection.isOpen && !this.#closed) this.#monitor.failed(accountsError(error));
    this.#failing.add(connection);
  }

  /** Sends heartbeats, of which one also finds changes made without a notification. A connection without a response counts as lost. */
  #beat(): void {
    if (this.#lookUps.isOpen) this.#refresh(noHash);
    void this.#readNumbers();
  }
}
