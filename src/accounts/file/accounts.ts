import { realpathSync } from 'node:fs';
import type { Account } from '../account.ts';
import type { KeyDirectory } from '../key-directory.ts';
import type { Accounts, AccountWithoutKeys } from '../accounts.ts';
import type { RemoteOperations } from '../operations-rpc.ts';
import type { TrailState } from '../store.ts';
import { countAccounts, type AccountStats } from '../account-stats.ts';
import { Vault } from '../vault.ts';
import { memoryDirectory } from './directory.ts';
import { OperationsThreads, type OperationsThreadOptions } from './thread.ts';
import { Trail } from './trail.ts';
import type { EpochMs } from '../../times.ts';

/** The accounts in a file. The caller reads the file, and reads it again whenever it changes. */
export class FileAccounts implements Accounts {
  readonly vault: Vault;
  readonly database = undefined;
  directory: KeyDirectory;
  readonly operations: RemoteOperations;
  /** Always false, because `close` waits for operations to finish rather than interrupting them. */
  readonly isBusy = false;
  readonly #threads: OperationsThreads;
  readonly #clock: () => EpochMs;
  readonly #file: string;
  #accounts: readonly Account[];

  constructor(options: OperationsThreadOptions, accounts: readonly Account[]) {
    this.#threads = new OperationsThreads(options);
    this.operations = this.#threads.operations;
    this.vault = new Vault(options.masterKeys);
    this.#clock = options.clock;
    this.#file = options.file;
    this.#accounts = accounts;
    this.directory = memoryDirectory(accounts);
  }

  take(accounts: readonly Account[]): void {
    this.#accounts = accounts;
    this.directory = memoryDirectory(accounts);
  }

  async find(id: string): Promise<AccountWithoutKeys | undefined> {
    return this.#accounts.find((account) => account.id === id);
  }

  async trailState(seen: number): Promise<TrailState> {
    return new Trail(realpathSync(this.#file)).state(seen);
  }

  stats(): AccountStats {
    return countAccounts(this.#accounts, this.#clock());
  }

  async close(): Promise<void> {
    await this.#threads.close();
  }
}
