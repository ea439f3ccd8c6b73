import type { Link } from '../audit/chain.ts';
import type { Line } from '../audit/lines.ts';
import type { KeyText } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import type { AccountsError } from './accounts-error.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs } from '../times.ts';

/**
 * A store of accounts: a YAML file or PostgreSQL. A store finds, locks and writes accounts; the rules for changes are in changes.ts. A
 * store has no master key, because credentials are wrapped and unwrapped outside it (vault.ts).
 *
 * Every method may reject with an `AccountsError`: `store_unavailable`, `store_read_only`, `disk_full`, `store_locked`, `store_changed` or
 * `store_invalid`; a change also with `audit_key_missing`. If a method rejects, nothing was changed.
 */
export interface Store {
  /** Whether the store keeps `lastUsedAt`. If it does not, only the log and the metrics show the use of keys. */
  readonly recordsUse: boolean;
  /** Maximum number of accounts that are changed together. It is limited so that a large change does not delay a revocation. */
  readonly changedAtOnce: number;

  /**
   * The account with this id; undefined if there is none. The PostgreSQL store reads at most `maxKeysRead` of its keys: valid keys first,
   * then the newest. A change leaves the remaining keys as they are. `list` limits keys in this way only if there is a selection.
   */
  read(id: string, hints?: Hints): Promise<StoredAccount | undefined>;

  /** The account with up to `limit` keys, oldest first, starting with the key whose id is `from`; without keys if no key has that id. */
  readKeys(id: string, limit: number, from: string | undefined): Promise<StoredAccount | undefined>;

  /** The account whose API key has this hash; undefined if there is none. @param hash lower-case hex SHA-256 */
  findByKey(hash: string): Promise<StoredAccount | undefined>;

  /**
   * The accounts after the id `after`, sorted by id (as bytes). The PostgreSQL store uses a bounded amount of memory, however many accounts
   * there are. The caller may stop the iteration early. The iteration may or may not see changes that are made while it runs.
   *
   * @param unreadable called with a `store_invalid` error for each account in a database that cannot be read; by default `endList`
   * @param selection undefined for all accounts
   */
  list(after?: string, unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount>;

  /**
   * Changes the accounts with these ids atomically: all or none are changed, and no other change comes between reading and writing.
   *
   * `decide` gets the existing accounts by id and returns whole accounts to be written. It may only return accounts with these ids. An
   * error that it throws aborts the change and is rethrown. `decide` must be pure except for randomness, because it is called again if the
   * attempt conflicts with another change, including a change made by hand. Only its last result counts.
   *
   * If a change was already made with the same idempotency key, `decide` is not called, and the receipt of that change is returned. The
   * receipt and the change are stored together or not at all.
   *
   * Rejects with `key_exists` if a key's id or hash already belongs to another account, and with `idempotency_key_reused` if the
   * idempotency key was used for another request.
   */
  change<T>(
    ids: readonly string[],
    decide: Decide<T>,
    idempotencyKey?: IdempotencyKey,
    hints?: Hints,
  ): Promise<ChangeResult<T>>;

  /**
   * Replaces every account with the result of `rewrite`, which may be called several times for the same account. If `rewrite` throws for any
   * account, no account is replaced. A database replaces accounts in small batches, so an interrupted change must be run again. Yields each
   * batch once it is stored. The event of each batch contains the number of changed accounts as `accounts`.
   */
  changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult>;

  /**
   * The audit trail, newest event first or, if the filter has `after`, oldest first. Memory stays bounded.
   *
   * @param unreadable as in `list`, for each event that cannot be read
   */
  events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent>;

  /** The lines of the trail after a position, byte for byte, then the lines that the previous version wrote and that are not chained. */
  trail(after?: number): AsyncIterable<Line>;

  /** Releases connections and files. The store must not be used afterwards. */
  close(): Promise<void>;
}

/** Maximum number of keys that the PostgreSQL store reads at once for one account, so that memory stays bounded. */
export const maxKeysRead = 2_000;

/** What a store needs to know about a change, or about a query that precedes or follows it. */
export interface Hints {
  /** Whether the work takes something away, for example because a key has leaked. Urgent work waits only for other urgent work. */
  readonly urgent?: boolean | undefined;
  /** Whether a token of the account asks for the work. There may be hundreds of such tokens, which must not keep operators waiting. */
  readonly ofAccount?: boolean | undefined;
  /** The id of the key concerned. It is always read, even if the account has too many keys to read all of them. */
  readonly key?: string | undefined;
}

/** Selects events. */
export interface EventFilter {
  /** Only events of this account. */
  readonly account?: string | undefined;
  /** Only events of this actor. The actor is given in full, such as `token:otto`, or by the name after the colon. */
  readonly actor?: string | undefined;
  readonly action?: AuditAction | undefined;
  /** Only events in this environment. */
  readonly environment?: EnvironmentName | undefined;
  /** Only events from `since` on and before `until`. */
  readonly since?: EpochMs | undefined;
  readonly until?: EpochMs | undefined;
  /** Only events at positions before `before` and after `after`. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
}

/** Called for each account or event that is left out because it cannot be read. */
export type Unreadable = (error: AccountsError) => void;

/** Ends a list at the first item that cannot be read. */
export const endList: Unreadable = (error) => {
  throw error;
};

/** A condition by which accounts are selected. The conditions are defined in conditions.ts. */
export type Condition = 'inactive' | 'encrypting' | 'due' | 'expiring' | 'unused' | 'in_grace';

/** Selects the accounts to which every member applies. */
export interface Selection {
  /** The id or the name contains this text, ignoring case. */
  readonly search?: string | undefined;
  /** At least one of these conditions applies. */
  readonly anyOf?: readonly Condition[] | undefined;
  /** The time at which conditions are evaluated. */
  readonly now: EpochMs;
}

/** Decides on a change. `existing` contains those of the requested accounts that exist. */
export type Decide<T> = (existing: ReadonlyMap<string, StoredAccount>) => Decision<T>;

/** A decided change, which is written as a whole or not at all. */
export interface Decision<T> {
  /** Whole accounts to be written. New accounts are added in this order. If the list is empty, no account is written. */
  readonly accounts: readonly StoredAccount[];
  /** The ids of accounts that are removed, with their keys and credentials. */
  readonly removed?: readonly string[];
  /** One event for each change made. Events are written to the store's trail together with their changes. */
  readonly events: readonly AuditEvent[];
  /** The result for the caller. It may contain secrets, which are not stored. */
  readonly result: T;
  /** The response to a repeated request: JSON without secrets. Used only if the request has an idempotency key. */
  readonly receipt?: string | undefined;
  /** Called immediately before the change is written, with no further wait in between. @throws if the change may no longer be made */
  readonly check?: (() => void) | undefined;
}

/** Identifies a request that must be carried out only once. */
export interface IdempotencyKey {
  /** 1 to 255 printable ASCII characters chosen by the client, preceded by the account's id and a space if the token is for one account. */
  readonly key: string;
  /** Digest of the request in lower-case hex. A different request with the same key is refused. */
  readonly request: string;
}

/** The outcome of `change`. A database keeps a receipt for at least 24 hours; a file store keeps 1,000 receipts in a separate file. */
export type ChangeResult<T> =
  | { readonly outcome: 'changed'; readonly result: T; readonly appended: readonly AppendedEvent[] }
  | { readonly outcome: 'repeated'; readonly receipt: string };

export type RewriteAccount = (account: StoredAccount) => StoredAccount;

/** One part of a change to all accounts: how many accounts it changed, and its events. */
export interface RewriteResult {
  readonly accounts: number;
  readonly appended: readonly AppendedEvent[];
}

/** An account as it is stored. All times are epoch milliseconds. */
export interface StoredAccount {
  /** 1 to 64 characters of `[A-Za-z0-9._-]`, but not `.` or `..`. */
  readonly id: string;
  /** 1 to 200 characters, but no control characters. */
  readonly name: string;
  readonly active: boolean;
  /** In the order in which they were made. Ids and hashes are unique in the whole store. */
  readonly keys: readonly StoredKey[];
  /** Environments in which encryption was never enabled are left out. */
  readonly encryption: Readonly<Partial<Record<EnvironmentName, StoredEncryption>>>;
}

export interface StoredKey extends ApiKey {
  /** The name that its owner gave it. The same characters are allowed as in an account's name. */
  readonly name?: string | undefined;
  /** The last four characters of the key. Undefined for a key that was made elsewhere, or before these characters were kept. */
  readonly lastFour?: string | undefined;
  /** When the key was last used, to within a few minutes; undefined if never, or if uses are not recorded. `change` does not write it. */
  readonly lastUsedAt: EpochMs | undefined;
}

/** How an account encrypts or has encrypted in an environment. The type rules out encryption without credentials, which would fail open. */
export type StoredEncryption = EnabledEncryption | DisabledEncryption;

interface EnabledEncryption extends EncryptionBase {
  readonly enabled: true;
  readonly credentials: StoredCredentials;
}

interface DisabledEncryption extends EncryptionBase {
  readonly enabled: false;
  /** Undefined, unless an accounts file written by hand still contains credentials. */
  readonly credentials: StoredCredentials | undefined;
}

interface EncryptionBase {
  readonly encoding: Encoding;
  /**
   * Credentials, or plaintext, that are also accepted during the grace period, in addition to the current setting. Kept until the next
   * change, even after the grace period ends.
   */
  readonly previous: StoredPrevious | undefined;
}

/** The merchant's key and IV, wrapped (`sealed:v1:…`) or, only in a file, in the clear. */
export interface StoredCredentials {
  readonly key: string;
  readonly iv: string;
  readonly format: KeyText;
  /** When the credentials were made. Undefined if the accounts file does not say. */
  readonly createdAt: EpochMs | undefined;
}

export interface StoredPrevious {
  /** Undefined if plaintext is accepted, because the account has only just begun to encrypt. */
  readonly credentials: StoredCredentials | undefined;
  /** End of the grace period. */
  readonly until: EpochMs;
  /** When a response was last sealed with these credentials, or sent in plaintext. It is recorded like `lastUsedAt` of a key. */
  readonly lastUsedAt: EpochMs | undefined;
}

export const auditActions = [
  'account_added',
  'account_imported',
  'account_renamed',
  'account_activated',
  'account_deactivated',
  'account_removed',
  'key_issued',
  'key_rotated',
  'key_revoked',
  'encryption_enabled',
  'encryption_disabled',
  'grace_changed',
  'grace_ended',
  'master_key_changed',
  'trail_begun',
  'audit_key_changed',
  'change_failed',
  'accounts_exported',
  'operator_signed_in',
  'operators_refused',
  'configuration_changed',
] as const;
export type AuditAction = (typeof auditActions)[number];

/** An entry of the audit trail. It never contains a secret. */
export interface AuditEvent {
  readonly at: EpochMs;
  /** `user:<name>` of the operating system, `token:<name>` of the operators' API, `unknown` or `sidecar`. */
  readonly actor: string;
  readonly action: AuditAction;
  /** The id of the account; undefined if the event concerns all accounts. */
  readonly account: string | undefined;
  /** For example ids, the environment, and when an overlap or a grace period ends. Names are in snake_case. */
  readonly details: Readonly<Record<string, string | number | boolean>>;
  /** Where the event came from: a client's address, or the sidecar's host. If undefined, the store's own origin is used. */
  readonly origin?: string | undefined;
  /** The id of the request to the operators' API. */
  readonly requestId?: string | undefined;
  /** The event's position in the previous version's table; undefined if that version did not write the event. */
  readonly older?: number | undefined;
}

/** An event of the trail. The times of events may be in any order, because clocks may be set back and differ between machines. */
export interface RecordedEvent extends AuditEvent {
  /** Starts at 1 and increases with each event. */
  readonly position: number;
}

/** Where a trail ends. */
export interface TrailState {
  readonly last: Link;
  /** Whether the last event is signed. */
  readonly isSigned: boolean;
  /** The hash of the event at the position that was asked for; undefined if there is no such event. */
  readonly seenHash: string | undefined;
}

/** An event that was just added to the trail. */
export interface AppendedEvent extends AuditEvent, Link {
  /** The hash of the line before this event. */
  readonly prev: string;
}
