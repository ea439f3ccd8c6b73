import type { Account } from './account.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';

/** An API key together with the account it belongs to. */
export interface KeyHolder {
  /** Its other keys do not matter to a request. */
  readonly account: Omit<Account, 'keys'>;
  readonly key: ApiKey;
}

/** `unavailable`: the store cannot tell at the moment; a wrong 401 would make a merchant's server give up. */
export type Found = KeyHolder | undefined | 'unavailable';

/** Where API keys are looked up. */
export interface Directory {
  /**
   * Finds the holder of the key with this hash (lower-case hex SHA-256). Looking up by hash makes an unknown key cost
   * what a known one costs, and leaves nothing to compare byte by byte that a clock could tell apart. A promise only
   * where somebody else has to be asked.
   */
  find(hash: string): Found | Promise<Found>;

  /** Whether `find` can tell at once. Looks only: the database is not asked, and nothing counts as used. */
  holds(hash: string): boolean;

  /** Where use is recorded: is told of every request that was let in. */
  readonly uses?: Uses;

  /** Where envelopes of accounts that do not encrypt are recorded. */
  readonly unexpected?: UnexpectedEnvelopes;
}

/** A directory that knows which version of an account it works by. */
export interface VersionedDirectory extends Directory {
  /** Whether requests with keys of this account are decided by what it says, and no longer by an earlier version of it. */
  isInForce(account: Account): boolean;
}

/** The state of a directory that looks keys up in a database. */
export interface DirectoryState {
  readonly connected: boolean;
  /** When the database was last heard, monotonic milliseconds; undefined: never. */
  readonly heardAt: number | undefined;
  /** Keys held that exist. */
  readonly known: number;
  /** Keys held that do not exist. */
  readonly unknown: number;
}

/** Takes note of uses, at next to no cost, to write them down now and then. Times are epoch milliseconds. */
export interface Uses {
  key(id: string, at: number): void;
  /** What a grace accepts besides the current credentials. @param until the end of the grace */
  previous(account: string, environment: EnvironmentName, until: number, at: number): void;
}

/** Takes note of envelopes that accounts send although they do not encrypt. */
export interface UnexpectedEnvelopes {
  /** @param at epoch milliseconds */
  unexpected(account: string, environment: EnvironmentName, at: number): void;
}
