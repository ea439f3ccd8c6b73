import type { Account } from '../account.ts';
import { differences } from '../differences.ts';
import type { KeyHolder, UnexpectedEnvelopes, VersionedDirectory } from '../key-directory.ts';
import type { OpenAccounts } from '../open-accounts.ts';
import type { PlainOperations } from '../plain-operations.ts';
import { tallyOf, type Tally } from '../tally.ts';
import { Vault } from '../vault.ts';
import { OperationsThread, type OperationsThreadOptions } from './thread.ts';
import { UnexpectedEnvelopesFile } from './unexpected-envelopes.ts';

/** The accounts of a file that has been read, and is read again whenever it changes. */
export class FileAccounts implements OpenAccounts {
  readonly vault: Vault;
  readonly database = undefined;
  readonly operations: PlainOperations;
  readonly #thread: OperationsThread;
  readonly #clock: () => number;
  readonly #unexpected: UnexpectedEnvelopesFile;
  #accounts: readonly Account[];
  #directory: VersionedDirectory;

  /** @param unrecorded called the first time that unexpected envelopes cannot be recorded */
  constructor(options: OperationsThreadOptions, accounts: readonly Account[], unrecorded: (error: unknown) => void) {
    this.#thread = new OperationsThread(options);
    this.operations = this.#thread.operations;
    this.vault = new Vault(options.masterKeys);
    this.#clock = options.clock;
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
    await Promise.all([this.#unexpected.write(), this.#thread.close()]);
  }
}

/** A directory over accounts held in memory. Key hashes are unique: the accounts' file is checked for that. */
export function memoryDirectory(accounts: readonly Account[], unexpected?: UnexpectedEnvelopes): VersionedDirectory {
  const byId = new Map(accounts.map((account) => [account.id, account]));
  const holders = new Map<string, KeyHolder | 'unavailable'>();
  for (const account of accounts) {
    for (const key of account.keys) {
      holders.set(key.hash, account.unopened === undefined ? { account, key } : 'unavailable');
    }
  }
  const serves = (account: Account): boolean => differences(byId.get(account.id), account).length === 0;
  return { find: (hash) => holders.get(hash), holds: () => true, serves, ...(unexpected && { unexpected }) };
}
