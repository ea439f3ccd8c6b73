import type { Account } from '../account.ts';
import type { KeyDirectory } from '../key-directory.ts';
import type { Accounts } from '../accounts.ts';
import type { PlainOperations } from '../plain-operations.ts';
import { tallyOf, type Tally } from '../tally.ts';
import { Vault } from '../vault.ts';
import { memoryDirectory } from './directory.ts';
import { OperationsThread, type OperationsThreadOptions } from './thread.ts';
import { UnexpectedEnvelopesFile } from './unexpected-envelopes.ts';

/** The accounts of a file that has been read, and is read again whenever it changes. */
export class FileAccounts implements Accounts {
  readonly vault: Vault;
  readonly database = undefined;
  directory: KeyDirectory;
  readonly operations: PlainOperations;
  readonly #thread: OperationsThread;
  readonly #clock: () => number;
  readonly #unexpected: UnexpectedEnvelopesFile;
  #accounts: readonly Account[];

  /** @param unrecorded called the first time that unexpected envelopes cannot be recorded */
  constructor(options: OperationsThreadOptions, accounts: readonly Account[], unrecorded: (error: unknown) => void) {
    this.#thread = new OperationsThread(options);
    this.operations = this.#thread.operations;
    this.vault = new Vault(options.masterKeys);
    this.#clock = options.clock;
    this.#unexpected = new UnexpectedEnvelopesFile(options.file, unrecorded);
    this.#accounts = accounts;
    this.directory = memoryDirectory(accounts, this.#unexpected);
  }

  take(accounts: readonly Account[]): void {
    this.#accounts = accounts;
    this.directory = memoryDirectory(accounts, this.#unexpected);
  }

  tally(): Tally {
    return tallyOf(this.#accounts, this.#clock());
  }

  async close(): Promise<void> {
    await Promise.all([this.#unexpected.write(), this.#thread.close()]);
  }
}
