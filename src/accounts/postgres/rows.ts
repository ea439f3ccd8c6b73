import { keyTexts, type KeyText } from '../../envelope/credentials.ts';
import { encodings, type Encoding } from '../../envelope/encoding.ts';
import { AccountsError } from '../accounts-error.ts';
import { environmentNames, keyPrefixes, type EnvironmentName, type KeyPrefix } from '../api-key.ts';
import { maxKeysRead } from '../store.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption, StoredKey, Unreadable } from '../store.ts';
import { rowName, type Versions } from './write.ts';

/** An account as one row: keys and encryption as JSON, times in epoch milliseconds. */
export interface AccountRow {
  readonly account_id: string;
  /** A value that is different after each change to the row. Keys and encryption have versions of their own. */
  readonly version: string;
  readonly name: string;
  readonly active: boolean;
  readonly keys: readonly KeyJson[];
  readonly encryption: readonly EncryptionJson[];
}

interface KeyJson {
  readonly key_id: string;
  readonly version: string;
  readonly prefix: KeyPrefix;
  readonly hash: string;
  readonly name: string | null;
  readonly last_four: string | null;
  readonly created_at: number;
  readonly expires_at: number | 'Infinity' | null;
  readonly revoked_at: number | null;
  readonly used_at: number | null;
}

interface EncryptionJson {
  readonly environment: EnvironmentName;
  readonly version: string;
  readonly enabled: boolean;
  readonly encoding: Encoding;
  readonly key: string | null;
  readonly iv: string | null;
  readonly format: KeyText | null;
  readonly created_at: number | null;
  readonly previous_key: string | null;
  readonly previous_iv: string | null;
  readonly previous_format: KeyText | null;
  readonly previous_until: number | null;
  readonly used_at: number | null;
}

function milliseconds(column: string): string {
  return `trunc(extract(epoch FROM ${column}) * 1000)`;
}

/** The row `k` of api_keys, with its last use from `u`, as `KeyJson`. */
const keyJson = `json_build_object(
  'key_id', k.key_id, 'version', k.xmin::text, 'prefix', k.prefix, 'hash', encode(k.hash, 'hex'),
  'name', k.name, 'last_four', k.last_four,
  'created_at', ${milliseconds('k.created_at')}, 'expires_at', ${milliseconds('k.expires_at')},
  'revoked_at', ${milliseconds('k.revoked_at')}, 'used_at', ${milliseconds('u.used_at')})`;

/** The encryption of the account `a`, as `EncryptionJson[]`. */
const encryptionJson = `(
  SELECT coalesce(json_agg(json_build_object(
    'environment', e.environment, 'version', e.xmin::text, 'enabled', e.enabled, 'encoding', e.encoding,
    'key', e.key, 'iv', e.iv, 'format', e.format, 'created_at', ${milliseconds('e.created_at')},
    'previous_key', e.previous_key, 'previous_iv', e.previous_iv, 'previous_format', e.previous_format,
    'previous_until', ${milliseconds('e.previous_until')}, 'used_at', ${milliseconds('p.used_at')})), '[]')
  FROM envelope_sidecar.encryption e
  LEFT JOIN envelope_sidecar.previous_uses p
    ON p.account_id = e.account_id AND p.environment = e.environment AND p.until = date_trunc('milliseconds', e.previous_until)
  WHERE e.account_id = a.account_id)`;

/** Whether a key `k` is valid according to the database's clock. */
const isValid = 'k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())';

/** Which keys of an account are read. */
interface KeyChoice {
  /** Maximum number of keys. Valid keys are chosen first, then the newest ones. Undefined if there is no limit. */
  readonly limit?: number;
  /** A condition on `k`. A key that meets this condition is always read. */
  readonly named?: string;
}

/** Selects accounts as `AccountRow`, in a single statement so that the rows are consistent. */
export function selectAccounts({ limit, named }: KeyChoice = { limit: maxKeysRead }): string {
  const first = named === undefined ? '' : `${named} DESC, `;
  return selectWithKeys(
    limit === undefined ? '' : `ORDER BY ${first}(${isValid}) DESC, k.position DESC LIMIT ${limit}`,
  );
}

/** Selects accounts with at most $3 of their keys, starting with the key whose id is $2, or with the oldest key if $2 is null. */
export const selectKeysFrom = selectWithKeys(
  `AND ($2::text IS NULL OR k.position >= (
    SELECT position FROM envelope_sidecar.api_keys WHERE account_id = a.account_id AND key_id = $2))
  ORDER BY k.position LIMIT $3`,
);

/** Selects accounts without their keys. */
export const selectWithoutKeys = selectWithKeys('LIMIT 0');

/** @param chosen the last clauses of the subquery that selects the keys (alias `k`) */
function selectWithKeys(chosen: string): string {
  return `
    SELECT a.account_id, a.xmin::text AS version, a.name, a.active, (
      SELECT coalesce(json_agg(${keyJson} ORDER BY k.position), '[]')
      FROM (
        SELECT k.*, k.xmin FROM envelope_sidecar.api_keys k WHERE k.account_id = a.account_id ${chosen}
      ) AS k LEFT JOIN envelope_sidecar.key_uses u USING (key_id)) AS keys, ${encryptionJson} AS encryption
    FROM envelope_sidecar.accounts a`;
}

/** A key and its account, as `AccountRow` without the other keys. */
export type HolderRow = Omit<AccountRow, 'keys' | 'version'> & { readonly key: KeyJson };

/** Selects the keys with the hashes in $1, as `HolderRow`. */
export const selectHolders = `
  SELECT a.account_id, a.name, a.active, ${encryptionJson} AS encryption, ${keyJson} AS key
  FROM envelope_sidecar.api_keys k
  JOIN envelope_sidecar.accounts a USING (account_id)
  LEFT JOIN envelope_sidecar.key_uses u USING (key_id)
  WHERE k.hash = ANY($1)`;

/**
 * Converts a row to an account. The database's constraints, unless they were dropped, guarantee that most values are valid, but they allow
 * times that a `Date` cannot hold.
 *
 * @throws AccountsError `store_invalid`, with the account's id
 */
export function toAccount({
  account_id: id,
  name,
  active,
  keys,
  encryption,
}: Omit<AccountRow, 'version'>): StoredAccount {
  const account = new Owner(id);
  const byEnvironment: Partial<Record<EnvironmentName, StoredEncryption>> = {};
  for (const row of encryption) {
    const environment = account.oneOf(environmentNames, row.environment, 'environment of its encryption');
    byEnvironment[environment] = toEncryption(row, account);
  }
  return {
    id,
    name,
    active: account.flag(active, 'active'),
    keys: keys.map((row) => toKey(row, account)),
    encryption: byEnvironment,
  };
}

/** The version of each row that belongs to these accounts. */
export function readVersions(rows: readonly AccountRow[]): Versions {
  return new Map(
    rows.flatMap(({ account_id: id, version, keys, encryption }) => [
      [rowName('accounts', id), version],
      ...keys.map((key) => [rowName('api_keys', key.key_id), key.version] as const),
      ...encryption.map((each) => [rowName('encryption', `${id} ${each.environment}`), each.version] as const),
    ]),
  );
}

/** The same as `toAccount`, but if the row cannot be read, reports that to `unreadable` and returns undefined. */
export function accountIfReadable(row: AccountRow, unreadable: Unreadable): StoredAccount | undefined {
  try {
    return toAccount(row);
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    unreadable(error);
    return undefined;
  }
}

function toKey(row: KeyJson, account: Owner): StoredKey {
  const time = (value: number | null, column: string): number | undefined =>
    account.time(value, `${column} of key ${row.key_id}`);
  return {
    id: row.key_id,
    prefix: account.oneOf(keyPrefixes, row.prefix, `prefix of key ${row.key_id}`),
    hash: row.hash,
    name: row.name ?? undefined,
    lastFour: row.last_four ?? undefined,
    createdAt: time(row.created_at, 'created_at') ?? account.refuse(`created_at of key ${row.key_id}`),
    // 'Infinity' may have been written by hand instead of null.
    expiresAt: row.expires_at === 'Infinity' ? undefined : time(row.expires_at, 'expires_at'),
    revokedAt: time(row.revoked_at, 'revoked_at'),
    lastUsedAt: readUse(row.used_at),
  };
}

function toEncryption(row: EncryptionJson, account: Owner): StoredEncryption {
  const named = (column: string): string => `${column} of its encryption in ${row.environment}`;
  const encoding = account.oneOf(encodings, row.encoding, named('encoding'));
  const credentials = toCredentials(account, named('key'), row.key, row.iv, row.format);
  const until = account.time(row.previous_until, named('previous_until'));
  const before = toCredentials(account, named('previous_key'), row.previous_key, row.previous_iv, row.previous_format);
  const previous = until === undefined ? undefined : { credentials: before, until, lastUsedAt: readUse(row.used_at) };
  const createdAt = account.time(row.created_at, named('created_at'));
  const current = credentials && { ...credentials, createdAt };
  if (!account.flag(row.enabled, named('enabled'))) return { enabled: false, encoding, credentials: current, previous };
  return { enabled: true, encoding, credentials: current ?? account.refuse(named('key')), previous };
}

/** Converts columns to credentials; undefined if all are null. Throws if only some are null, because that must not mean plaintext. */
function toCredentials(
  account: Owner,
  name: string,
  key: string | null,
  iv: string | null,
  format: KeyText | null,
): StoredCredentials | undefined {
  if (key === null && iv === null && format === null) return undefined;
  if (key === null || iv === null || format === null) return account.refuse(name);
  return { key, iv, format: account.oneOf(keyTexts, format, name), createdAt: undefined };
}

/** The latest time that a `Date` can hold, in epoch milliseconds. ECMA-262 §21.4.1.1. */
const latest = 8.64e15;

/**
 * When something was last used; undefined if the value is not a valid time. An invalid time is not an error, because every role that serves
 * merchants may write this value but must not be able to make an account unreadable.
 */
function readUse(value: number | null): number | undefined {
  return isTime(value) ? value : undefined;
}

/** Whether a value is a valid time. PostgreSQL's 'infinity' arrives as a string. */
function isTime(value: number | null): value is number {
  return typeof value === 'number' && Math.abs(value) <= latest;
}

/** Reads the values of an account's row. The error for an invalid value contains the account's id, but never the value itself. */
class Owner {
  readonly #id: string;

  constructor(id: string) {
    this.#id = id;
  }

  refuse(what: string): never {
    throw new AccountsError('store_invalid', `account ${this.#id}: the ${what} cannot be used`, undefined, this.#id);
  }

  time(value: number | null, what: string): number | undefined {
    if (value === null) return undefined;
    return isTime(value) ? value : this.refuse(what);
  }

  flag(value: boolean, what: string): boolean {
    return typeof value === 'boolean' ? value : this.refuse(what);
  }

  oneOf<T extends string>(known: readonly T[], value: T, what: string): T {
    return known.includes(value) ? value : this.refuse(what);
  }
}
