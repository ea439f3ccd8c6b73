import type { CredentialFormat } from '../../envelope/credentials.ts';
import type { Encoding } from '../../envelope/encoding.ts';
import { environmentNames, type EnvironmentName, type KeyPrefix } from '../api-key.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption, StoredKey, StoredPrevious } from '../store.ts';

/** An account as one row: what hangs on it as JSON, times in epoch milliseconds. */
export interface AccountRow {
  readonly account_id: string;
  readonly name: string;
  readonly active: boolean;
  readonly keys: readonly KeyJson[];
  readonly encryption: readonly EncryptionJson[];
}

export interface KeyJson {
  readonly key_id: string;
  readonly prefix: KeyPrefix;
  readonly hash: string;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly used_at: number | null;
}

export interface EncryptionJson {
  readonly environment: EnvironmentName;
  readonly enabled: boolean;
  readonly encoding: Encoding;
  readonly key: string | null;
  readonly iv: string | null;
  readonly format: CredentialFormat | null;
  readonly created_at: number | null;
  readonly previous_key: string | null;
  readonly previous_iv: string | null;
  readonly previous_format: CredentialFormat | null;
  readonly previous_until: number | null;
  readonly used_at: number | null;
}

function milliseconds(column: string): string {
  return `trunc(extract(epoch FROM ${column}) * 1000)`;
}

/** A key of `k`, last used as `u` says, as `KeyJson`. */
export const keyJson = `json_build_object(
  'key_id', k.key_id, 'prefix', k.prefix, 'hash', encode(k.hash, 'hex'),
  'created_at', ${milliseconds('k.created_at')}, 'expires_at', ${milliseconds('k.expires_at')},
  'revoked_at', ${milliseconds('k.revoked_at')}, 'used_at', ${milliseconds('u.used_at')})`;

/** The encryption of the account `a`, as `EncryptionJson[]`. */
export const encryptionJson = `(
  SELECT coalesce(json_agg(json_build_object(
    'environment', e.environment, 'enabled', e.enabled, 'encoding', e.encoding,
    'key', e.key, 'iv', e.iv, 'format', e.format, 'created_at', ${milliseconds('e.created_at')},
    'previous_key', e.previous_key, 'previous_iv', e.previous_iv, 'previous_format', e.previous_format,
    'previous_until', ${milliseconds('e.previous_until')}, 'used_at', ${milliseconds('p.used_at')})), '[]')
  FROM envelope_sidecar.encryption e
  LEFT JOIN envelope_sidecar.previous_uses p
    ON p.account_id = e.account_id AND p.environment = e.environment AND p.until = e.previous_until
  WHERE e.account_id = a.account_id)`;

/** Accounts in whole, as `AccountRow`: one statement, so that no change comes between its parts. */
export const selectAccounts = `
  SELECT a.account_id, a.name, a.active, (
    SELECT coalesce(json_agg(${keyJson} ORDER BY k.position), '[]')
    FROM envelope_sidecar.api_keys k LEFT JOIN envelope_sidecar.key_uses u USING (key_id)
    WHERE k.account_id = a.account_id) AS keys, ${encryptionJson} AS encryption
  FROM envelope_sidecar.accounts a`;

/** The account of a row. The database's constraints vouch for its parts. */
export function accountOf({ account_id: id, name, active, keys, encryption }: AccountRow): StoredAccount {
  const byEnvironment: Partial<Record<EnvironmentName, StoredEncryption>> = {};
  for (const environment of environmentNames) {
    const row = encryption.find((each) => each.environment === environment);
    if (row !== undefined) byEnvironment[environment] = encryptionOf(row);
  }
  return { id, name, active, keys: keys.map(keyOf), encryption: byEnvironment };
}

export function keyOf(row: KeyJson): StoredKey {
  return {
    id: row.key_id,
    prefix: row.prefix,
    hash: row.hash,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    lastUsedAt: row.used_at ?? undefined,
  };
}

function encryptionOf(row: EncryptionJson): StoredEncryption {
  const { enabled, encoding } = row;
  const credentials = credentialsOf(row.key, row.iv, row.format, row.created_at);
  const before = credentialsOf(row.previous_key, row.previous_iv, row.previous_format, null);
  const previous: StoredPrevious | undefined =
    row.previous_until === null
      ? undefined
      : { credentials: before, until: row.previous_until, lastUsedAt: row.used_at ?? undefined };
  return { enabled, encoding, credentials, previous };
}

function credentialsOf(
  key: string | null,
  iv: string | null,
  format: CredentialFormat | null,
  createdAt: number | null,
): StoredCredentials | undefined {
  if (key === null || iv === null || format === null) return undefined;
  return { key, iv, format, createdAt: createdAt ?? undefined };
}
