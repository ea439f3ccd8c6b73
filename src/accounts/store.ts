import type { Link } from '../audit/chain.ts';
import type { Line } from '../audit/lines.ts';
import type { KeyText } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import type { AccountsError } from './accounts-error.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs } from '../times.ts';

/**
 * A store of accounts: a YAML file or PostgreSQL. A store finds, locks and writes. The rules are in changes.ts, as functions from the
 * stored account to the new one. A store has no master key: credentials are wrapped and unwrapped outside it (vault.ts).
 *
 * Every method may reject with an `AccountsError`: `store_unavailable`, `store_read_only`, `disk_full`, `store_locked`, `store_changed` or
 * `store_invalid`; a change also with `audit_key_missing`. If a method rejects, nothing was changed.
 */
export interface Store {
  /** Whether `lastUsedAt` is kept. If not, only the log and the metrics show use. */
  readonly recordsUse: boolean;
  /** Maximum number of accounts that are changed together, so that a large change does not hold up a revocation. */
  readonly changedAtOnce: number;

  /**
   * The account with this id; undefined if there is none. If it has more than `maxKeysRead` keys, a database reads only that many: valid
   * ones first, then the newest. A change leaves the others as they are. `list` limits keys in this way only with a selection.
   */
  read(id: string, hints?: Hints): Promise<StoredAccount | undefined>;

  /** The account with up to `limit` of its keys, oldest first, from the one with the id `from` on; without keys if that id is unknown. */
  readKeys(id: string, limit: number, from: string | undefined): Promise<StoredAccount | undefined>;

  /** The account with the API key of this hash; undefined if there is none. @param hash lower-case hex SHA-256 */
  findByKey(hash: string): Promise<StoredAccount | undefined>;

  /**
   * The accounts in the order of their ids (as bytes), from the first one after `after`. Memory stays bounded in a database, however many
   * accounts there are; an iteration may stop early. Changes during the iteration may be seen or not.
   *
   * @param unreadable if an account in a database cannot be read, gets a `store_invalid` in its place; by default `endList`
   * @param selection undefined: all accounts
   */
  list(after?: string, unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount>;

  /**
   * Changes the accounts with these ids atomically: all or none, without another change between reading and writing.
   *
   * `decide` gets the existing accounts by id and returns whole accounts to be written. It may only return accounts with these ids. An
   * error that it throws aborts the change and is rethrown. It is pure except for randomness, and is called again if the attempt conflicts
   * with another change, even one made by hand. Only its last result counts.
   *
   * A change that was made with the same idempotency key is not made again: its receipt is returned, and `decide` is not called. The
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
   * Replaces every account with the result of `rewrite`, which may be called several times for one account; replaces none if one cannot be
   * rewritten. A database replaces a few at a time, so an interrupted change is run again. Yields each part once it is stored, with an
   * event that has the number of changed accounts as `accounts`.
   */
  changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult>;

  /**
   * The audit trail, newest first; with `after`, in the order of writing. Memory stays bounded.
   *
   * @param unreadable as in `list`, for each event that cannot be read
   */
  events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent>;

  /** The lines of the trail after a position, byte for byte; then those of the previous version that are not chained. */
  trail(after?: number): AsyncIterable<Line>;

  /** Releases connections and files. The store must not be used afterwards. */
  close(): Promise<void>;
}

/** Maximum number of keys of an account that a database reads at once, so that memory stays bounded. */
export const maxKeysRead = 2_000;

/** What a database needs to know about a change, or about a query before or after it. */
export interface Hints {
  /** Whether something is taken away, for example from a leaked key: the work then waits for no other work that is not urgent. */
  readonly urgent?: boolean | undefined;
  /** Whether a token of the account asks for it: there may be hundreds of such tokens, which must not keep operators waiting. */
  readonly ofAccount?: boolean | undefined;
  /** The id of the key that the change is about. It is read however many keys the account has. */
  readonly key?: string | undefined;
}

/** Selects events. */
export interface EventFilter {
  /** Only events of this account. */
  readonly account?: string | undefined;
  /** Only events of this actor: the whole actor, such as `token:otto`, or only the name after the colon. */
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

/** Called for an account, or an event, that is left out because it cannot be read. */
export type Unreadable = (error: AccountsError) => void;

/** Ends a list at the first item that cannot be read. */
export const endList: Unreadable = (error) => {
  throw error;
};

/** A condition by which accounts are selected; conditions.ts defines each. */
export type Condition = 'inactive' | 'encrypting' | 'due' | 'expiring' | 'unused' | 'in_grace';

/** Selects the accounts to which every member applies. */
export interface Selection {
  /** The id or the name contains this text, ignoring case. */
  readonly search?: string | undefined;
  /** One of these conditions applies. */
  readonly anyOf?: readonly Condition[] | undefined;
  /** The time at which conditions are evaluated. */
  readonly now: EpochMs;
}

/** Decides on a change. `existing` has only the accounts that exist. */
export type Decide<T> = (existing: ReadonlyMap<string, StoredAccount>) => Decision<T>;

/** A decided change, which is written as a whole or not at all. */
export interface Decision<T> {
  /** Whole accounts, in the order in which new ones are to be added. An empty list changes nothing. */
  readonly accounts: readonly StoredAccount[];
  /** The ids of accounts that are removed, with their keys and credentials. */
  readonly removed?: readonly string[];
  /** One for each change made; kept in the store's trail, together with the change. */
  readonly events: readonly AuditEvent[];
  /** For the caller. May contain secrets, which are not stored. */
  readonly result: T;
  /** The response to a repeated request: JSON without secrets. Read only with an idempotency key. */
  readonly receipt?: string | undefined;
  /** Called immediately before the change is written, after every wait. @throws if the change must not be made any more */
  readonly check?: (() => void) | undefined;
}

/** Identifies a request that must be carried out only once. */
export interface IdempotencyKey {
  /** Chosen by the client, 1 to 255 printable ASCII characters. For a token of one account, preceded by the account and a space. */
  readonly key: string;
  /** Digest of the request, to refuse the same key with another request. Lower-case hex. */
  readonly request: string;
}

/** A database keeps a receipt for at least 24 hours. A file store keeps 1,000 in a separate file. */
export type ChangeResult<T> =
  | { readonly outcome: 'changed'; readonly result: T; readonly appended: readonly AppendedEvent[] }
  | { readonly outcome: 'repeated'; readonly receipt: string };

export type RewriteAccount = (account: StoredAccount) => StoredAccount;

/** One part of a change of all accounts: how many accounts it changed, and its events. */
export interface RewriteResult {
  readonly accounts: number;
  readonly appended: readonly AppendedEvent[];
}

/** An account as it is stored. All times are epoch milliseconds. */
export interface StoredAccount {
  /** 1 to 64 of `[A-Za-z0-9._-]`, and not `.` or `..`. */
  readonly id: string;
  /** 1 to 200 characters, no control characters. */
  readonly name: string;
  readonly active: boolean;
  /** In the order in which they were made. Ids and hashes are unique in the whole store. */
  readonly keys: readonly StoredKey[];
  /** An environment in which encryption was never enabled is missing. */
  readonly encryption: Readonly<Partial<Record<EnvironmentName, StoredEncryption>>>;
}

export interface StoredKey extends ApiKey {
  /** What its owner calls it. The same characters are allowed as in an account's name. */
  readonly name?: string | undefined;
  /** The last four characters of the key. Undefined for a key that was made before they were kept, or elsewhere. */
  readonly lastFour?: string | undefined;
  /** When the key was last used, within a few minutes. Undefined: never, or the store does not record it. A store does not write it. */
  readonly lastUsedAt: EpochMs | undefined;
}

/** How an account encrypts, or did, in one environment. Enabled without credentials cannot be expressed, because it would fail open. */
export type StoredEncryption = EnabledEncryption | DisabledEncryption;

interface EnabledEncryption extends EncryptionBase {
  readonly enabled: true;
  readonly credentials: StoredCredentials;
}

interface DisabledEncryption extends EncryptionBase {
  readonly enabled: false;
  /** A file written by hand may still have them. */
  readonly credentials: StoredCredentials | undefined;
}

interface EncryptionBase {
  readonly encoding: Encoding;
  /**
   * What a grace accepts besides the current credentials or, if encryption is disabled, besides plaintext. Kept until the next change, even
   * after the grace.
   */
  readonly previous: StoredPrevious | undefined;
}

/** The merchant's key and IV, wrapped (`sealed:v1:…`) or, only in a file, in the clear. */
export interface StoredCredentials {
  readonly key: string;
  readonly iv: string;
  readonly format: KeyText;
  /** Undefined if a file does not say. */
  readonly createdAt: EpochMs | undefined;
}

export interface StoredPrevious {
  /** Undefined: plaintext is accepted, from an account that starts to encrypt. */
  readonly credentials: StoredCredentials | undefined;
  /** End of the grace. */
  readonly until: EpochMs;
  /** When a response was last sealed with them, or sent in plaintext. As `lastUsedAt` of a key. */
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

/** An entry of the audit trail. Never has a secret. */
export interface AuditEvent {
  readonly at: EpochMs;
  /** `user:<name>` of the operating system, `token:<name>` of the operators' API, `unknown` or `sidecar`. */
  readonly actor: string;
  readonly action: AuditAction;
  /** Undefined if it concerns all accounts. */
  readonly account: string | undefined;
  /** Such as ids, the environment, and when an overlap or a grace ends. Names in snake_case. */
  readonly details: Readonly<Record<string, string | number | boolean>>;
  /** Where the event came from: a client's address, or the sidecar's host. Undefined: the origin that the store was opened with. */
  readonly origin?: string | undefined;
  /** The id of the request to the operators' API. */
  readonly requestId?: string | undefined;
  /** For an event of the previous version: its position in that version's table. */
  readonly older?: number | undefined;
}

/** An event of the trail. The times of events may be in any order, because clocks are set back and differ between machines. */
export interface RecordedEvent extends AuditEvent {
  /** From 1, increasing in the order of writing. */
  readonly position: number;
}

/** Where a trail ends. */
export interface TrailState {
  readonly last: Link;
  /** Whether the last event is signed. */
  readonly isSigned: boolean;
  /** The hash of the event at the position that was asked for; undefined: there is none. */
  readonly seenHash: string | undefined;
}

/** An event that was just added to the trail. */
export interface AppendedEvent extends AuditEvent, Link {
  /** The hash of the line before it. */
  readonly prev: string;
}
