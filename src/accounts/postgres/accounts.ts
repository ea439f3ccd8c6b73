import type { KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { Account } from '../account.ts';
import type { DirectoryState } from '../key-directory.ts';
import type { AccountsDatabase, OpenAccounts } from '../open-accounts.ts';
import type { SealedSample } from '../sealed-sample.ts';
import { carriedOut, operationsBy } from '../plain-operations.ts';
import type { AuditEvent } from '../store.ts';
import type { Tally } from '../tally.ts';
import { Vault } from '../vault.ts';
import { changePool } from './clients.ts';
import { PostgresDirectory } from './directory.ts';
import { inspect, openSample } from './inspect.ts';
import type { Monitor } from './monitor.ts';
import { PostgresStore } from './store.ts';
import { TallyKeeper } from './tally-keeper.ts';
import { UseRecorder } from './use-recorder.ts';

/** The time for the last write of uses when it closes. Milliseconds. */
const lastWrite = 2_000;

/** Accounts whose credentials are opened to try the master key. */
const sampleSize = 100;

/** How the accounts in a database are looked up. */
export interface PostgresSettings {
  /** `postgres://…` */
  readonly url: string;
  /** What credentials are sealed with: each of them opens. At least one. */
  readonly masterKeys: readonly KeyObject[];
  /** API keys held at most. */
  readonly cache: number;
  /** How long known keys go on working while the database cannot be asked. Milliseconds. */
  readonly staleFor: number;
}

/** The accounts in a database: the directory has a connection of its own, and less urgent work another. */
export class PostgresAccounts implements OpenAccounts, AccountsDatabase {
  readonly directory: PostgresDirectory;
  readonly vault: Vault;
  readonly operations = operationsBy(async (call) => {
    // Loaded on demand: its code takes memory, which a sidecar without the operators' API saves.
    const { Operations } = await import('../operations.ts');
    const { vault } = this;
    return carriedOut(new Operations({ store: this.#store, vault, clock: this.#clock, audit: this.#audit }), call);
  });
  readonly #store: PostgresStore;
  readonly #clock: () => number;
  readonly #audit: (event: AuditEvent) => void;
  readonly #url: string;
  readonly #uses: UseRecorder;
  readonly #tally: TallyKeeper;
  #pool: Promise<Pool> | undefined;

  /**
   * @param clock     epoch milliseconds
   * @param stopwatch monotonic milliseconds
   * @param audit     told of each change by an operator, once it is made
   */
  constructor(
    { url, masterKeys, cache, staleFor }: PostgresSettings,
    clock: () => number,
    stopwatch: () => number,
    monitor: Monitor,
    audit: (event: AuditEvent) => void,
  ) {
    const pool = (): Promise<Pool> => (this.#pool ??= changePool(url, 1));
    this.#uses = new UseRecorder(pool);
    this.#tally = new TallyKeeper(pool, clock, stopwatch);
    this.#url = url;
    this.#clock = clock;
    this.#audit = audit;
    this.vault = new Vault(masterKeys);
    this.#store = new PostgresStore(url);
    this.directory = new PostgresDirectory({
      url,
      vault: this.vault,
      cache,
      staleFor,
      uses: this.#uses,
      stopwatch,
      monitor,
    });
  }

  get database(): AccountsDatabase {
    return this;
  }

  get state(): DirectoryState {
    return this.directory.state;
  }

  async open(): Promise<void> {
    this.#uses.start();
    await this.directory.open();
  }

  take(_accounts: readonly Account[]): void {}

  async sealedSample(): Promise<SealedSample> {
    return openSample(await inspect(this.#url, sampleSize), this.vault);
  }

  /** The latest numbers of accounts, keys and credentials; undefined before the first. */
  tally(): Tally | undefined {
    return this.#tally.latest();
  }

  /** Writes the remaining uses, if that does not take long, and closes the connections. */
  async close(): Promise<void> {
    this.#uses.stop();
    if (this.directory.state.connected) {
      await Promise.race([this.#uses.write(), delay(lastWrite, undefined, { ref: false })]);
    }
    await Promise.all([this.directory.close(), this.#store.close()]);
    const pool = this.#pool;
    this.#pool = undefined;
    void (await pool)?.end();
  }
}
