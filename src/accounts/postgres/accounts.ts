import type { KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { Account } from '../account.ts';
import { AccountsError } from '../accounts-error.ts';
import type { DirectoryState } from '../key-directory.ts';
import type { AccountsDatabase, Accounts, AccountWithoutKeys, CredentialsSample, DailyUses } from '../accounts.ts';
import type { MasterKey } from '../master-key.ts';
import { handleCall, createOperationsClient, type RemoteOperations } from '../operations-rpc.ts';
import type { AppendedEvent } from '../store.ts';
import type { TrailState } from '../store.ts';
import type { AccountStats } from '../account-stats.ts';
import { unwrapIfPossible } from '../unwrap-account.ts';
import { Vault } from '../vault.ts';
import { changePool } from './clients.ts';
import { PostgresDirectory } from './directory.ts';
import { inspect, unwrapSample } from './inspect.ts';
import type { Monitor } from './monitor.ts';
import { Revocations } from './revocations.ts';
import { PostgresStore } from './store.ts';
import { AccountCounter } from './account-counter.ts';
import { trailState } from './trail.ts';
import { queryOn } from './transaction.ts';
import { UseRecorder } from './use-recorder.ts';
import type { EpochMs, MonotonicMs } from '../../times.ts';

/** How long `close` waits for the uses that are still in memory to be written, in milliseconds. */
const lastWrite = 2_000;

/** The number of accounts whose credentials are unwrapped to test the master key. */
const sampleSize = 100;

/** The settings for accounts in a database. */
export interface PostgresSettings {
  /** `postgres://…` */
  readonly url: string;
  /** The keys that wrap credentials; at least one. The first key wraps; all keys unwrap. */
  readonly masterKeys: readonly MasterKey[];
  /** The keys that sign the audit trail; see `TrailOptions`. */
  readonly auditKeys: readonly KeyObject[];
  /** Maximum number of API keys cached. */
  readonly cache: number;
  /** How long cached keys can be used while the database is unreachable, in milliseconds. */
  readonly staleFor: number;
  /** As in `OperationsOptions`. */
  readonly maxKeyAge?: number | undefined;
}

/** The accounts in a database. The directory has a connection of its own, and less urgent work uses another one. */
export class PostgresAccounts implements Accounts, AccountsDatabase {
  readonly directory: PostgresDirectory;
  readonly vault: Vault;
  readonly operations: RemoteOperations;
  readonly database: AccountsDatabase = this;
  readonly #store: PostgresStore;
  readonly #url: string;
  readonly #uses: UseRecorder;
  readonly #counter: AccountCounter;
  #pool: Promise<Pool> | undefined;
  #closed = false;
  /** The number of operations in progress. */
  #operating = 0;

  /** @param audit called with each event that operators' changes have added to the trail */
  constructor(
    { url, masterKeys, auditKeys, cache, staleFor, maxKeyAge }: PostgresSettings,
    clock: () => EpochMs,
    monotonic: () => MonotonicMs,
    monitor: Monitor,
    audit: (event: AppendedEvent) => void,
  ) {
    const pool = (): Promise<Pool> => this.#openPool();
    this.#uses = new UseRecorder(pool);
    this.#counter = new AccountCounter(pool, clock, monotonic);
    this.#url = url;
    const vault = new Vault(masterKeys);
    const store = new PostgresStore(url, { auditKeys });
    this.vault = vault;
    this.#store = store;
    this.operations = createOperationsClient((call) =>
      this.#operate(async () => {
        // The module is loaded on demand, to save memory in a sidecar without the operators' API.
        const { Operations } = await import('../operations.ts');
        return handleCall(new Operations({ store, vault, clock, audit, maxKeyAge }), call);
      }),
    );
    const revocations = new Revocations(pool, clock, (found) => monitor.changed(found));
    this.directory = new PostgresDirectory({
      url,
      vault,
      cache,
      staleFor,
      uses: this.#uses,
      monotonic,
      monitor: {
        ...monitor,
        // Revocations are left out here, because `Revocations` reports them for all keys, not only for cached keys.
        changed: (found) => monitor.changed(found.filter(({ change }) => change !== 'key_revoked')),
      },
      heard: (account) => revocations.heard(account),
    });
  }

  get isBusy(): boolean {
    return this.#operating > 0;
  }

  get state(): DirectoryState {
    return this.directory.state;
  }

  async open(): Promise<void> {
    this.#uses.start();
    await this.directory.open();
  }

  async find(id: string): Promise<AccountWithoutKeys | undefined> {
    const stored = await this.#operate(() => this.#store.readWithoutKeys(id));
    return stored && unwrapIfPossible(stored, this.vault);
  }

  take(_accounts: readonly Account[]): void {}

  async sampleCredentials(): Promise<CredentialsSample> {
    const inspection = await inspect(this.#url, sampleSize);
    // Other connections may work while the connection for look-ups cannot be opened, for example through a transaction pooler or on a
    // standby. In that case, no key can be looked up.
    if (!this.state.connected) throw new AccountsError('store_unavailable', 'the connection for look-ups is not open');
    return unwrapSample(inspection, this.vault);
  }

  dailyUses(owner: string, keys: readonly string[], now: EpochMs): Promise<DailyUses> {
    return this.#operate(() => this.#store.dailyUses(owner, keys, now));
  }

  async trailState(seen: number): Promise<TrailState> {
    return trailState(queryOn(await this.#openPool()), seen);
  }

  /** The latest counts of accounts, keys and credentials; undefined before the first count. */
  stats(): AccountStats | undefined {
    return this.#counter.latest();
  }

  /** Tries for a limited time to write the uses that are still in memory, and closes the connections. */
  async close(): Promise<void> {
    this.#uses.stop();
    if (this.directory.state.connected) {
      await Promise.race([this.#uses.write(), delay(lastWrite, undefined, { ref: false })]);
    }
    this.#closed = true;
    await Promise.all([this.directory.close(), this.#store.close()]);
    const pool = this.#pool;
    this.#pool = undefined;
    void (await pool)?.end();
  }

  /** Runs work that `close` would interrupt, and counts it as an operation in progress. */
  async #operate<T>(work: () => Promise<T>): Promise<T> {
    this.#operating += 1;
    try {
      return await work();
    } finally {
      this.#operating -= 1;
    }
  }

  async #openPool(): Promise<Pool> {
    // Without this check, work that was about to use the pool, such as a check for revocations, would open connections that nobody closes.
    if (this.#closed) throw new Error('the account store is closed');
    return (this.#pool ??= changePool(this.#url, 1));
  }
}
