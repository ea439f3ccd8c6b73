import type { Link } from '../audit/chain.ts';
import type { Line } from '../audit/lines.ts';
import type { KeyText } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import type { AccountsError } from './accounts-error.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs } from '../times.ts';

/**
 * A store of accounts: a YAML file or PostgreSQL. A store finds, locks and writes. It has no rules, which are in
 * changes.ts as functions from the stored account to the new one, and no master key: credentials are wrapped and
 * unwrapped outside (vault.ts).
 *
 * Every method rejects with an `AccountsError`: `store_unavailable`, `store_read_only`, `disk_full`, `store_locked`,
 * `store_changed`, `store_invalid`, and a change also with `audit_key_missing`. If it rejects, nothing was changed.
 */
export interface Store {
  /** Whether `lastUsedAt` is kept. If not, only the log and the metrics show use. */
  readonly recordsUse: boolean;
  /** The number of accounts that a change of many concerns at most, so that it does not hold up a revocation. */
  readonly changedAtOnce: number;

  /**
   * The account with this id; undefined if there is none. Of more keys than `maxKeysRead`, a database reads that many: valid ones
   * first, then the newest. The others stay as they are in a change. `list` does so only with a selection.
   */
  read(id: string, hints?: Hints): Promise<StoredAccount | undefined>;

  /** The account with up to `limit` keys, oldest first, from the one with the id `from` on; without keys if that is unknown. */
  readKeys(id: string, limit: number, from: string | undefined): Promise<StoredAccount | undefined>;

  /** The account with the API key of this hash; undefined if there is none. @param hash lower-case hex SHA-256 */
  findByKey(hash: string): Promise<StoredAccount | undefined>;

  /**
   * The accounts in the order of their ids (as bytes), from the first one after `after`. Memory stays bounded in a
   * database, however many there are; an iteration may stop early. Changes during the iteration may be seen or not.
   *
   * @param unreadable gets a `store_invalid` for each account in a database that cannot be read, in place of the account;
   *   by default `endList`
   * @param selection undefined: all accounts
   */
  list(after?: string, unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount>;

  /**
   * Changes the accounts with these ids atomically: all or none, without another change between reading and writing.
   *
   * `decide` gets the existing ones by id and returns whole accounts to be written. It may only return accounts with
   * these ids. An error that it throws aborts the change and is rethrown. It is pure except for randomness, and is
   * called again if the attempt conflicts with another change, also one by hand. Only its last result counts.
   *
   * A change that was made with the same idempotency key is not made again: its receipt is returned, and `decide` is not
   * called. Receipt and change are kept together or not at all.
   *
   * Rejects with `key_exists` if a key's id or hash already belongs to another account, and with
   * `idempotency_key_reused` if the idempotency key was used for another request.
   */
  change<T>(
    ids: readonly string[],
    decide: Decide<T>,
    idempotencyKey?: IdempotencyKey,
    hints?: Hints,
  ): Promise<ChangeResult<T>>;

  /**
   * Replaces every account with the result of `rewrite`, which may be called several times for it, and none if one cannot be rewritten. In a
   * database a few at a time: an interrupted change is run again. Yields what is stored, each with an event that has the number as `accounts`.
   */
  changeAll(rewrite: RewriteAccount, event: AuditEvent): AsyncIterable<RewriteResult>;

  /**
   * The audit trail, newest first; with `after` in the order of writing. Memory stays bounded.
   *
   * @param unreadable as of `list`, for each event that cannot be read
   */
  events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<RecordedEvent>;

  /** The lines of the trail behind a position, byte for byte; after them, those of the version before that are not chained. */
  trail(after?: number): AsyncIterable<Line>;

  /** Releases connections and files. The store must not be used afterwards. */
  close(): Promise<void>;
}

/** Maximum number of keys of an account that a database reads at once, so that memory stays bounded. */
export const maxKeysRead = 2_000;

/** What a database need know of a change, or of the query before or after it. */
export interface Hints {
  /** Whether something is taken away, as from a key that leaked: it waits for no work that is not urgent. */
  readonly urgent?: boolean | undefined;
  /** The id of the key that it is about, which is read however many keys there are. */
  readonly key?: string | undefined;
}

/** Selects events. */
export interface EventFilter {
  /** Only events of this account. */
  readonly account?: string | undefined;
  /** Only events of this actor: whole, such as `token:otto`, or the name behind the colon. */
  readonly actor?: string | undefined;
  readonly action?: AuditAction | undefined;
  /** Only events in this environment. */
  readonly environment?: EnvironmentName | undefined;
  /** Only events from the first time on and before the second one. */
  readonly since?: EpochMs | undefined;
  readonly until?: EpochMs | undefined;
  /** Only events before the first position and behind the second one. */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
}

/** Called for an account, or an event, that is left out because it cannot be read. */
export type Unreadable = (error: AccountsError) => void;

/** Ends a list at the first one that cannot be read. */
export const endList: Unreadable = (error) => {
  throw error;
};

/** A condition by which accounts are selected; conditions.ts defines each. */
export type Condition = 'inactive' | 'encrypting' | 'due' | 'expiring' | 'unused' | 'in_grace';

/** Selects the accounts to which every member applies. */
export interface Selection {
  /** The id or the name contains this text, in any letter case. */
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
  /** Called immediately before it is written, after every wait. @throws if it must not be made any more */
  readonly check?: (() => void) | undefined;
}

/** Identifies a request that must be carried out only once. */
export interface IdempotencyKey {
  /** Chosen by the client, 1 to 255 printable ASCII characters; with an account and a space before it for a token of one account. */
  readonly key: string;
  /** Digest of the request, to refuse the same key with another request. Lower-case hex. */
  readonly request: string;
}

/** A database keeps a receipt for at least 24 hours. A file store keeps 1,000 in a separate file. */
export type ChangeResult<T> =
  | { readonly outcome: 'changed'; readonly result: T; readonly appended: readonly AppendedEvent[] }
  | { readonly outcome: 'repeated'; readonly receipt: string };

export type RewriteAccount = (account: StoredAccount) => StoredAccount;

/** A part of a change of all accounts, and the number of those that changed. */
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
  /** What its owner calls it, with the characters of an account's name. */
  readonly name?: string | undefined;
  /** The last four characters of the key. Undefined for a key that was made before they were kept, or elsewhere. */
  readonly lastFour?: string | undefined;
  /** Within a few minutes. Undefined: never, or the store does not record it. A store ignores it when it writes. */
  readonly lastUsedAt: EpochMs | undefined;
}

/**
 * How an account encrypts in one environment, or did. Enabled without credentials cannot be expressed, because it would
 * fail open.
 */
export type StoredEncryption = EnabledEncryption | DisabledEncryption;

interface EnabledEncryption extends EncryptionBase {
  readonly enabled: true;
  readonly credentials: StoredCredentials;
}

interface DisabledEncryption extends EncryptionBase {
  readonly enabled: false;
  /** A file written by hand may keep them. */
  readonly credentials: StoredCredentials | undefined;
}

interface EncryptionBase {
  readonly encoding: Encoding;
  /** What a grace accepts besides the current credentials, or, if disabled, plaintext. Stays until the next change, even after the grace. */
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
  /** When a response was last sealed with them, or sent in plain. As `lastUsedAt` of a key. */
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
  /** Ids, the environment, ends of overlap and grace. Names in snake_case. */
  readonly details: Readonly<Record<string, string | number | boolean>>;
  /** Where it came from: a client's address, or the sidecar's host. Undefined: what the store was opened with. */
  readonly origin?: string | undefined;
  /** The id of the request to the operators' API. */
  readonly requestId?: string | undefined;
  /** The position of an event of the version before in its table. */
  readonly older?: number | undefined;
}

/** An event of the trail. Events may have any order of time, because clocks are set back and differ between machines. */
export interface RecordedEvent extends AuditEvent {
  /** From 1, ascending in the order of writing, with gaps. */
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
