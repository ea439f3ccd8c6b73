import type { Account } from './account.ts';
import type { DirectoryState, KeyDirectory } from './key-directory.ts';
import type { RemoteOperations } from './operations-rpc.ts';
import type { TrailState } from './store.ts';
import type { AccountStats } from './account-stats.ts';
import type { Vault } from './vault.ts';
import type { EpochMs } from '../times.ts';

/** The accounts of a running sidecar, in a file or in a database. */
export interface Accounts {
  /** Looks up the API keys that requests carry. */
  readonly directory: KeyDirectory;
  /** Carries out operators' queries and changes. */
  readonly operations: RemoteOperations;
  /** Unwraps the credentials of accounts in the store. */
  readonly vault: Vault;
  /** Undefined if the accounts are in a file. */
  readonly database: AccountsDatabase | undefined;
  /** The account as this sidecar serves it, without its keys; undefined if no account has this id. @throws AccountsError */
  find(id: string): Promise<AccountWithoutKeys | undefined>;
  /** Starts serving the accounts of a reloaded accounts file. Does nothing if the accounts are in a database. */
  take(accounts: readonly Account[]): void;
  /** Where the audit trail ends. @param seen the position whose hash is returned as `seenHash`; 0 if no such hash is needed */
  trailState(seen: number): Promise<TrailState>;
  /** The latest counts of accounts, keys and credentials; undefined before the first count. */
  stats(): AccountStats | undefined;
  /** Whether an operation is in progress that `close` would interrupt. */
  readonly isBusy: boolean;
  close(): Promise<void>;
}

/** An account without its keys, which are left out because there may be thousands of them. */
export type AccountWithoutKeys = Omit<Account, 'keys'>;

/** The connection of a running sidecar to its database. */
export interface AccountsDatabase {
  readonly state: DirectoryState;
  /** Connects; resolves when the first attempt has succeeded or failed. The caller may continue in both cases. */
  open(): Promise<void>;
  /** Unwraps the credentials of some accounts, chosen at random. @throws AccountsError if the database cannot be queried */
  sampleCredentials(): Promise<CredentialsSample>;
  /**
   * Counts the requests made with these keys in the last 30 days.
   *
   * @param owner the account whose token asks for the counts, or empty for an operator. Queries from different owners take turns
   * @throws AccountsError
   */
  dailyUses(owner: string, keys: readonly string[], now: EpochMs): Promise<DailyUses>;
}

/** The number of days for which a database keeps daily request counts. */
export const daysOfUse = 30;

/** For each key, the number of requests per day, oldest day first, summed over all sidecars. Keys without requests are left out. */
export type DailyUses = ReadonlyMap<string, readonly number[]>;

/** The result of unwrapping the credentials of some accounts. */
export interface CredentialsSample {
  /** The number of accounts in the sample. */
  readonly tried: number;
  /** One message for each account whose credentials could not be unwrapped. */
  readonly failures: readonly string[];
  /** True if the master key could not unwrap any of the credentials. Rows that cannot be read are ignored. */
  readonly noneUnwraps: boolean;
}

/**
 * The sample for an accounts file: all accounts that have credentials. These were unwrapped when the file was read. `noneUnwraps` is false,
 * because a file is invalid if none of its credentials can be unwrapped.
 */
export function takeSample(accounts: readonly Account[]): CredentialsSample {
  const tried = accounts.filter(
    ({ encryption, unwrapError }) => unwrapError !== undefined || Object.keys(encryption).length > 0,
  );
  return { tried: tried.length, failures: tried.flatMap(({ unwrapError }) => unwrapError ?? []), noneUnwraps: false };
}
