import type { Account } from './account.ts';
import type { DirectoryState, KeyDirectory } from './key-directory.ts';
import type { RemoteOperations } from './operations-rpc.ts';
import type { TrailState } from './store.ts';
import type { AccountStats } from './account-stats.ts';
import type { Vault } from './vault.ts';
import type { EpochMs } from '../times.ts';

/** The accounts of a running sidecar, in a file or in a database. */
export interface Accounts {
  /** Looks keys up for requests. */
  readonly directory: KeyDirectory;
  /** For changes by operators. */
  readonly operations: RemoteOperations;
  /** Unwraps the credentials of accounts in the store. */
  readonly vault: Vault;
  /** Undefined if the accounts are in a file. */
  readonly database: AccountsDatabase | undefined;
  /** The account as this sidecar serves it, without its keys; undefined if there is none. @throws AccountsError */
  find(id: string): Promise<AccountWithoutKeys | undefined>;
  /** Puts the accounts of a reloaded file in force. Not used with a database. */
  take(accounts: readonly Account[]): void;
  /** Where the audit trail ends. @param seen a position whose hash is wanted; 0: none */
  trailState(seen: number): Promise<TrailState>;
  /** The latest counts of accounts, keys and credentials; undefined before the first. */
  stats(): AccountStats | undefined;
  /** Whether an operation is in progress that `close` would cut short. */
  readonly isBusy: boolean;
  close(): Promise<void>;
}

/** An account without its keys, of which there may be thousands. */
export type AccountWithoutKeys = Omit<Account, 'keys'>;

/** The connection of a running sidecar to its database. */
export interface AccountsDatabase {
  readonly state: DirectoryState;
  /** Connects; resolves when the first attempt has succeeded or failed. The caller may continue in both cases. */
  open(): Promise<void>;
  /** Unwraps the credentials of some accounts, chosen at random. @throws AccountsError if the database cannot be queried */
  sampleCredentials(): Promise<CredentialsSample>;
  /**
   * The requests with these keys in the last 30 days.
   *
   * @param owner its queries take turns with those of other owners
   * @throws AccountsError
   */
  dailyUses(owner: string, keys: readonly string[], now: EpochMs): Promise<DailyUses>;
}

/** The number of days for which a database keeps counts of requests. */
export const daysOfUse = 30;

/** Numbers of requests by key and day, oldest day first, through all sidecars. Keys without requests are missing. */
export type DailyUses = ReadonlyMap<string, readonly number[]>;

/** The result of unwrapping the credentials of some accounts. */
export interface CredentialsSample {
  /** The number of accounts. */
  readonly tried: number;
  /** One message for each account whose credentials could not be unwrapped. */
  readonly failures: readonly string[];
  /** Whether the master key unwrapped none of the credentials. Rows that cannot be read do not count. */
  readonly noneUnwraps: boolean;
}

/** The sample of a file. All its credentials were tried when it was read: if none could be unwrapped, the file is invalid. */
export function takeSample(accounts: readonly Account[]): CredentialsSample {
  const tried = accounts.filter(
    ({ encryption, unwrapError }) => unwrapError !== undefined || Object.keys(encryption).length > 0,
  );
  return { tried: tried.length, failures: tried.flatMap(({ unwrapError }) => unwrapError ?? []), noneUnwraps: false };
}
