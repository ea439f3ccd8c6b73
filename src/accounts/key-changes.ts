import { AccountsError } from './accounts-error.ts';
import { getEnvironment, getKind, readPrefix, getState } from './api-key.ts';
import type { EnvironmentName, KeyKind } from './api-key.ts';
import { makeApiKey, makeKeyId, successorId } from './key-maker.ts';
import { formatDuration } from '../input/value-types.ts';
import type { StoredAccount, StoredKey } from './store.ts';
import type { EpochMs } from '../times.ts';
import { sha256Hex } from '../cryptography.ts';

// The rules for changes to API keys, in the same form as in changes.ts.

/** Returns the account's key with this id. @throws `key_unknown` if there is none */
export function requireKey(account: StoredAccount, keyId: string): StoredKey {
  const key = account.keys.find(({ id }) => id === keyId);
  if (key === undefined) throw new AccountsError('key_unknown', `account ${account.id} has no key with this id`);
  return key;
}

interface IssueRequest {
  readonly account: StoredAccount;
  readonly key: StoredKey;
  /** The key itself. It is not stored, so it can only be shown now. */
  readonly secret: string;
}

/**
 * Maximum number of an account's keys that are valid, or that expired or were revoked in the last 30 days. Without a limit, one account's
 * token could fill the store.
 */
const maxKeys = 1_000;
const endedTime = 30 * 86_400_000;

interface WantedKey {
  readonly environment: EnvironmentName;
  readonly kind: KeyKind;
  readonly expiresAt: EpochMs | undefined;
  readonly name?: string | undefined;
}

/**
 * Computes when a new key expires.
 *
 * @param lifetime the requested lifetime; undefined: the longest allowed
 * @param maxAge the longest lifetime allowed; undefined: there is no limit
 * @returns undefined if the key does not expire
 * @throws `lifetime_not_allowed`
 */
export function computeExpiry(
  lifetime: number | undefined,
  maxAge: number | undefined,
  now: EpochMs,
): number | undefined {
  if (lifetime !== undefined && maxAge !== undefined && lifetime > maxAge) {
    throw new AccountsError(
      'lifetime_not_allowed',
      `keys.maxAge limits the lifetime of a key to ${formatDuration(maxAge)}`,
    );
  }
  const allowed = lifetime ?? maxAge;
  return allowed === undefined ? undefined : now + allowed;
}

/** Issues a key. @throws `too_many_keys` */
export function issueKey(
  account: StoredAccount,
  wanted: WantedKey,
  now: EpochMs,
  id: string = makeKeyId(),
): IssueRequest {
  const counted = account.keys.filter(
    ({ expiresAt, revokedAt }) => Math.min(expiresAt ?? now, revokedAt ?? now) > now - endedTime,
  );
  if (counted.length >= maxKeys) {
    const limit = maxKeys.toLocaleString('en');
    throw new AccountsError(
      'too_many_keys',
      `account ${account.id} has ${limit} keys that are valid, or have ended in the last 30 days: it can have no more`,
    );
  }
  const secret = makeApiKey(wanted.environment, wanted.kind);
  const key: StoredKey = {
    id,
    prefix: readPrefix(secret),
    hash: sha256Hex(secret),
    name: wanted.name,
    lastFour: secret.slice(-4),
    createdAt: now,
    expiresAt: wanted.expiresAt,
    revokedAt: undefined,
    lastUsedAt: undefined,
  };
  return { account: { ...account, keys: [...account.keys, key] }, key, secret };
}

/**
 * Issues a successor to a key, with the same name, environment, kind and lifetime, or with the longest allowed lifetime if that is shorter.
 * The old key stays valid for `overlap` more milliseconds, but never beyond its own expiry. A key has only one successor.
 *
 * @throws `key_unknown`, `key_revoked`, `key_expired`, `key_rotated`, `too_many_keys`
 */
export function rotateKey(
  account: StoredAccount,
  keyId: string,
  overlap: number,
  now: EpochMs,
  maxAge?: number,
): IssueRequest & { readonly oldEndsAt: number } {
  const key = requireKey(account, keyId);
  const { name, prefix, createdAt, expiresAt } = key;
  const state = getState(key, now);
  if (state === 'revoked') throw new AccountsError('key_revoked', `key ${keyId} is revoked: issue a new one`);
  if (state === 'expired') throw new AccountsError('key_expired', `key ${keyId} has expired: issue a new one`);
  const id = successorId(keyId);
  if (account.keys.some((each) => each.id === id)) {
    throw new AccountsError('key_rotated', `key ${keyId} was already rotated: its successor is ${id}`);
  }
  const oldEndsAt = Math.min(now + overlap, expiresAt ?? Infinity);
  const lifetime = expiresAt === undefined ? maxAge : Math.min(expiresAt - createdAt, maxAge ?? Infinity);
  const wanted = {
    environment: getEnvironment(prefix),
    kind: getKind(prefix),
    expiresAt: computeExpiry(lifetime, maxAge, now),
    name,
  };
  return { ...issueKey(withKey(account, { ...key, expiresAt: oldEndsAt }), wanted, now, id), oldEndsAt };
}

/** Revokes a key at once. @throws `key_unknown`, `key_revoked` */
export function revokeKey(account: StoredAccount, keyId: string, now: EpochMs): StoredAccount {
  const key = requireKey(account, keyId);
  if (key.revokedAt !== undefined) throw new AccountsError('key_revoked', `key ${keyId} is already revoked`);
  return withKey(account, { ...key, revokedAt: now });
}

function withKey(account: StoredAccount, key: StoredKey): StoredAccount {
  return { ...account, keys: account.keys.map((each) => (each.id === key.id ? key : each)) };
}
