import type { Account } from './account.ts';
import type { DirectoryState, VersionedDirectory } from './key-directory.ts';
import type { SealedSample } from './sealed-sample.ts';
import type { PlainOperations } from './plain-operations.ts';
import type { Tally } from './tally.ts';
import type { Vault } from './vault.ts';

/** The accounts of a running sidecar, in a file or in a database. */
export interface OpenAccounts {
  /** Looks keys up for requests. */
  readonly directory: VersionedDirectory;
  /** For changes by operators. */
  readonly operations: PlainOperations;
  /** Opens the credentials of accounts in the store. */
  readonly vault: Vault;
  /** Undefined if the accounts are in a file. */
  readonly database: AccountsDatabase | undefined;
  /** Puts the accounts of a reloaded file in force. Not used with a database. */
  take(accounts: readonly Account[]): void;
  /** The latest counts of accounts, keys and credentials; undefined before the first. */
  tally(): Tally | undefined;
  close(): Promise<void>;
}

/** The connection of a running sidecar to its database. */
export interface AccountsDatabase {
  readonly state: DirectoryState;
  /** Connects; resolves when the first attempt has succeeded or failed. The caller may continue in both cases. */
  open(): Promise<void>;
  /** Opens the sealed credentials of some accounts, chosen at random. @throws AccountsError the database cannot be asked */
  sealedSample(): Promise<SealedSample>;
}
