import type { Account } from './account.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

/** An API key together with the account it belongs to. */
export interface Principal {
  /** The account without its keys, because a request depends only on the key that it was sent with. */
  readonly account: Omit<Account, 'keys'>;
  readonly key: ApiKey;
}

/**
 * Undefined if there is no such key. `unavailable` if the store does not respond. The two are kept apart because merchants retry after an
 * outage, but not after a 401.
 */
export type LookupResult = Principal | undefined | 'unavailable';

/** Looks up accounts by their API keys. */
export interface KeyDirectory {
  /**
   * Finds the principal of the key with this hash (lower-case hex SHA-256). A look-up by hash takes the same time for known and unknown
   * keys, and compares no key byte by byte, so its duration reveals nothing. Returns a promise only if the database must be queried.
   */
  find(hash: string): LookupResult | Promise<LookupResult>;

  /** Whether `find` would return at once, without a promise. This check does not query the database or count as a use of the key. */
  holds(hash: string): boolean;

  /** Whether this version of the account, rather than an earlier one, is used for requests with the account's keys. */
  serves(account: Account): boolean;

  /** Drops what is cached of an account that has been changed. Undefined if nothing is cached. */
  forget?(account: string): void;

  /** Records which keys are used by admitted requests. Undefined if the store does not record this. */
  readonly uses?: Uses;
}

/** The state of a directory that looks keys up in a database. */
export interface DirectoryState {
  readonly connected: boolean;
  /** When the database last responded; undefined if it never has. */
  readonly heardAt: MonotonicMs | undefined;
  /** How much longer cached keys can be used, in milliseconds. Undefined while the database is reachable, or if it has never been. */
  readonly usableFor: number | undefined;
  /** The number of keys that are cached as existing. */
  readonly known: number;
  /** The number of keys that are cached as not existing. */
  readonly unknown: number;
}

/** Records uses in memory and writes them to the store periodically. Times are epoch milliseconds. */
export interface Uses {
  key(id: string, at: number): void;
  /**
   * Records that a request used the previous credentials, or plaintext, during a grace period.
   *
   * @param until the end of the grace period
   */
  previous(account: string, environment: EnvironmentName, until: EpochMs, at: number): void;
}
