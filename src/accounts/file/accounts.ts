import type { Account } from '../account.ts';
import type { VersionedDirectory } from '../directory.ts';
import type { OpenAccounts } from '../open-accounts.ts';
import type { Store } from '../store.ts';
import { tallyOf, type Tally } from '../tally.ts';
import { Vault } from '../vault.ts';
import { memoryDirectory } from './directory.ts';
import type { FileStoreOptions } from './store.ts';
import { ThreadedFileStore } from './threaded-store.ts';
import { UnexpectedEnvelopesFile } from './unexpected-envelopes.ts';

/** The accounts of a file, which was read before and is read again whenever it changes. */
export class FileAccounts implements OpenAccounts {
  readonly store: Store;
  readonly vault: Vault;
  readonly database = undefined;
  readonly #clock: () => number;
  readonly #unexpected: UnexpectedEnvelopesFile;
  #accounts: readonly Account[];
  #directory: VersionedDirectory;

  /**
   * @param clock      epoch milliseconds
   * @param unrecorded called the first time that the file beside it cannot be written
   */
  constructor(
    options: FileStoreOptions,
    accounts: readonly Account[],
    clock: () => number,
    unrecorded: (error: unknown) => void,
  ) {
    this.store = new ThreadedFileStore(options);
    this.vault = new Vault(options.masterKeys);
    this.#clock = clock;
    this.#unexpected = new UnexpectedEnvelopesFile(options.file, unrecorded);
    this.#accounts = accounts;
    this.#directory = memoryDirectory(accounts, this.#unexpected);
  }

  get directory(): VersionedDirectory {
    return this.#directory;
  }

  take(accounts: readonly Account[]): void {
    this.#accounts = accounts;
    this.#directory = memoryDirectory(accounts, this.#unexpected);
  }

  tally(): Tally {
    return tallyOf(this.#accounts, this.#clock());
  }

  async close(): Promise<void> {
    await Promise.all([this.#unexpected.write(), this.store.close()]);
  }
}
