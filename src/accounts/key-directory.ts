import type { Account } from './account.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

/** An API key together with the account it belongs to. */
export interface Principal {
  /** The account's other keys do not matter to a request. */
  readonly account: Omit<Account, 'keys'>;
  readonly key: ApiKey;
}

/** `unavailable`: the store does not respond. A spurious 401 would stop merchants from retrying. */
export type LookupResult = Principal | undefined | 'unavailable';

/** Looks up accounts by their API keys. */
export interface KeyDirectory {
  /**
   * Finds the principal of the key with this hash (lower-case hex SHA-256). A look-up by hash takes the same time for
   * known and unknown keys, and compares no key byte by byte, so that its duration reveals nothing. Returns a promise
   * only for a query to the database.
   */
  find(hash: string): LookupResult | Promise<LookupResult>;

  /** Whether `find` returns at once. Does not query the database, and does not count as a use. */
  holds(hash: string): boolean;

  /** Whether requests with keys of this account are decided by this version of the account, not by an earlier one. */
  serves(account: Account): boolean;

  /** Records every admitted request. */
  readonly uses?: Uses;
}

/** The state of a directory that looks keys up in a database. */
export interface DirectoryState {
  readonly connected: boolean;
  /** When the database last responded; undefined: never. */
  readonly heardAt: MonotonicMs | undefined;
  /** How much longer cached keys work, in milliseconds. Undefined while the database can be reached, or if it never could be. */
  readonly usableFor: number | undefined;
  /** Cached keys that exist. */
  readonly known: number;
  /** Cached keys that do not exist. */
  readonly unknown: number;
}

/** Records uses in memory, and periodically stores those that the store keeps. Times are epoch milliseconds. */
export interface Uses {
  key(id: string, at: number): void;
  /** Records the use of what a grace accepts. @param until the end of the grace */
  previous(account: string, environment: EnvironmentName, until: EpochMs, at: number): void;
}
