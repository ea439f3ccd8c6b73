import { generateCredentials, sameCredentials } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import { AccountsError } from './accounts-error.ts';
import { environmentNames, environmentOf, sha256Hex, kindOf, prefixOf, stateOf } from './api-key.ts';
import type { EnvironmentName, KeyKind } from './api-key.ts';
import { isInGrace } from './conditions.ts';
import { rfc3339 } from '../input/value-types.ts';
import { maxGrace } from './value-types.ts';
import { makeApiKey, makeKeyId, successorId } from './key-maker.ts';
import { unwrapCredentials } from './unwrap-account.ts';
import type {
  IdempotencyKey,
  StoredAccount,
  StoredCredentials,
  StoredEncryption,
  StoredKey,
  StoredPrevious,
} from './store.ts';
import type { Vault } from './vault.ts';

// The rules of every change, for all stores: functions from the current account to the new one. All times are epoch
// milliseconds. A refused change throws an AccountsError.

/** The account, if one was found by this id. @throws `account_unknown` */
export function requireAccount(account: StoredAccount | undefined, id: string): StoredAccount {
  if (account === undefined) throw new AccountsError('account_unknown', `account ${id} does not exist`);
  return account;
}

/** Refuses an idempotency key that was first used for another request. @throws `idempotency_key_reused` */
export function refuseReuse({ request }: IdempotencyKey, first: string | undefined): void {
  if (request === first) return;
  throw new AccountsError('idempotency_key_reused', 'the idempotency key was already used for another request');
}

/** A new account without keys. @param found an existing account with this id @throws `account_exists` */
export function newAccount(found: StoredAccount | undefined, id: string, name: string): StoredAccount {
  if (found !== undefined) throw new AccountsError('account_exists', `account ${id} already exists`);
  return { id, name, active: true, keys: [], encryption: {} };
}

/** One key of an account. @throws `key_unknown` */
export function requireKey(account: StoredAccount, keyId: string): StoredKey {
  const key = account.keys.find(({ id }) => id === keyId);
  if (key === undefined) throw new AccountsError('key_unknown', `account ${account.id} has no key with this id`);
  return key;
}

interface Issued {
  readonly account: StoredAccount;
  readonly key: StoredKey;
  /** The key itself. It is not stored, so it can only be shown now. */
  readonly secret: string;
}

/** Issues a key. @param expiresAt undefined: it does not expire */
export function issueKey(
  account: StoredAccount,
  wanted: { readonly environment: EnvironmentName; readonly kind: KeyKind; readonly expiresAt: number | undefined },
  now: number,
  id: string = makeKeyId(),
): Issued {
  const secret = makeApiKey(wanted.environment, wanted.kind);
  const key: StoredKey = {
    id,
    prefix: prefixOf(secret),
    hash: sha256Hex(secret),
    createdAt: now,
    expiresAt: wanted.expiresAt,
    revokedAt: undefined,
    lastUsedAt: undefined,
  };
  return { account: { ...account, keys: [...account.keys, key] }, key, secret };
}

/**
 * Issues a successor of the same kind and lifetime; the old key lives for `overlap` milliseconds more, but not
 * longer than before. A key has one successor.
 *
 * @throws `key_unknown`, `key_revoked`, `key_expired`, `key_rotated`
 */
export function rotateKey(
  account: StoredAccount,
  keyId: string,
  overlap: number,
  now: number,
): Issued & { readonly oldEndsAt: number } {
  const key = requireKey(account, keyId);
  const { prefix, createdAt, expiresAt } = key;
  const state = stateOf(key, now);
  if (state === 'revoked') throw new AccountsError('key_revoked', `key ${keyId} is revoked: issue a new one`);
  if (state === 'expired') throw new AccountsError('key_expired', `key ${keyId} has expired: issue a new one`);
  const id = successorId(keyId);
  if (account.keys.some((each) => each.id === id)) {
    throw new AccountsError('key_rotated', `key ${keyId} was already rotated: its successor is ${id}`);
  }
  const oldEndsAt = Math.min(now + overlap, expiresAt ?? Infinity);
  const lifetime = expiresAt === undefined ? undefined : expiresAt - createdAt;
  const wanted = {
    environment: environmentOf(prefix),
    kind: kindOf(prefix),
    expiresAt: lifetime === undefined ? undefined : now + lifetime,
  };
  return { ...issueKey(withKey(account, { ...key, expiresAt: oldEndsAt }), wanted, now, id), oldEndsAt };
}

/** Revokes a key at once. @throws `key_unknown`, `key_revoked` */
export function revokeKey(account: StoredAccount, keyId: string, now: number): StoredAccount {
  const key = requireKey(account, keyId);
  if (key.revokedAt !== undefined) throw new AccountsError('key_revoked', `key ${keyId} is already revoked`);
  return withKey(account, { ...key, revokedAt: now });
}

export interface EnableOptions {
  /** Undefined: unchanged, or hex. */
  readonly encoding: Encoding | undefined;
  /** How long the previous credentials, or plaintext, are also accepted, in milliseconds; undefined: not at all. */
  readonly grace: number | undefined;
  /** Whether credentials in use may be replaced. */
  readonly replace: boolean;
}

/**
 * Switches encryption on with new credentials.
 *
 * @throws `encryption_enabled` if it is on without `replace`, `grace_running` if a grace is requested during another
 *   one (there is room for one set of previous credentials), `credentials_equal`
 */
export function enableEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  { encoding, grace, replace }: EnableOptions,
  now: number,
  vault: Vault,
): { readonly account: StoredAccount; readonly credentials: { readonly key: string; readonly iv: string } } {
  const before = account.encryption[environment];
  if (before?.enabled && !replace) {
    throw new AccountsError(
      'encryption_enabled',
      `encryption of account ${account.id} is already enabled in ${environment}: use "replace" to create new credentials`,
    );
  }
  if (grace !== undefined) refuseSecondGrace(before, now);
  const { key, iv, format } = generateCredentials();
  const place = { account: account.id, environment };
  const after = withEncryption(account, environment, {
    enabled: true,
    encoding: encoding ?? before?.encoding ?? 'hex',
    credentials: {
      key: vault.wrap(key, { ...place, member: 'key' }),
      iv: vault.wrap(iv, { ...place, member: 'iv' }),
      format,
      createdAt: now,
    },
    previous: grace === undefined ? undefined : previousOf(before, now + grace),
  });
  refuseEqual(after, vault);
  return { account: after, credentials: { key, iv } };
}

/**
 * Moves the end of a running grace, or ends the grace.
 *
 * @param until epoch milliseconds; undefined: the grace ends at once
 * @throws `grace_not_running`, `until_not_allowed`
 */
export function changeGrace(
  account: StoredAccount,
  environment: EnvironmentName,
  until: number | undefined,
  now: number,
): StoredAccount {
  const before = account.encryption[environment];
  if (before?.previous === undefined || !isInGrace(before, now)) {
    throw new AccountsError('grace_not_running', `account ${account.id} has no grace in ${environment}`);
  }
  if (until !== undefined && (until <= now || until > now + maxGrace)) {
    throw new AccountsError(
      'until_not_allowed',
      'expected a time within the next 365 days: to end the grace now, use "end"',
    );
  }
  const previous = until === undefined ? undefined : { ...before.previous, until };
  return withEncryption(account, environment, { ...before, previous });
}

/**
 * Switches encryption off. The credentials are deleted, after the grace if there is one.
 *
 * @param grace how long envelopes are still accepted, in milliseconds; undefined: they stop at once
 * @throws `encryption_disabled` if it is off, `grace_running` if a grace is requested during another one
 */
export function disableEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  grace: number | undefined,
  now: number,
): StoredAccount {
  const before = account.encryption[environment];
  if (!before?.enabled) {
    throw new AccountsError(
      'encryption_disabled',
      `encryption of account ${account.id} is not enabled in ${environment}`,
    );
  }
  if (grace !== undefined) refuseSecondGrace(before, now);
  return withEncryption(account, environment, {
    enabled: false,
    encoding: before.encoding,
    credentials: undefined,
    previous: grace === undefined ? undefined : previousOf(before, now + grace),
  });
}

/** There is room for one set of previous credentials. */
function refuseSecondGrace(before: StoredEncryption | undefined, now: number): void {
  if (before?.previous === undefined || !isInGrace(before, now)) return;
  throw new AccountsError(
    'grace_running',
    `a grace is running until ${rfc3339(before.previous.until)}: a new one would delete credentials that merchants may still use`,
  );
}

/**
 * A test key that leaked would otherwise read live traffic through the test environment.
 *
 * @throws `credentials_equal`
 */
export function refuseEqual(account: StoredAccount, vault: Vault): void {
  const [test, live] = [account.encryption.test, account.encryption.live].map((encryption) =>
    [encryption?.credentials, encryption?.previous?.credentials].filter((each) => each !== undefined),
  );
  for (const one of test ?? []) {
    const opened = unwrapCredentials(one, account.id, 'test', vault);
    for (const other of live ?? []) {
      if (!sameCredentials(opened, unwrapCredentials(other, account.id, 'live', vault))) continue;
      throw new AccountsError('credentials_equal', `account ${account.id} has the same AES key in test and live`);
    }
  }
}

/** An account with its credentials unwrapped by one vault and wrapped by another. */
export function rewrap(account: StoredAccount, from: Vault, to: Vault): StoredAccount {
  const rewrapped = (credentials: StoredCredentials, environment: EnvironmentName): StoredCredentials => {
    const again = (text: string, member: 'key' | 'iv'): string => {
      const place = { account: account.id, environment, member };
      return to.isCurrent(text, place) ? text : to.wrap(from.unwrap(text, place), place);
    };
    return { ...credentials, key: again(credentials.key, 'key'), iv: again(credentials.iv, 'iv') };
  };
  const encryption: Partial<Record<EnvironmentName, StoredEncryption>> = {};
  for (const environment of environmentNames) {
    const one = account.encryption[environment];
    if (one === undefined) continue;
    const previous = one.previous && {
      ...one.previous,
      credentials: one.previous.credentials && rewrapped(one.previous.credentials, environment),
    };
    encryption[environment] = one.enabled
      ? { ...one, credentials: rewrapped(one.credentials, environment), previous }
      : { ...one, credentials: one.credentials && rewrapped(one.credentials, environment), previous };
  }
  return { ...account, encryption };
}

/** The grace for the credentials that were in use, or for plaintext if there were none. */
function previousOf(before: StoredEncryption | undefined, until: number): StoredPrevious {
  const credentials = before?.enabled ? before.credentials : undefined;
  return { credentials: credentials && { ...credentials, createdAt: undefined }, until, lastUsedAt: undefined };
}

function withKey(account: StoredAccount, key: StoredKey): StoredAccount {
  return { ...account, keys: account.keys.map((each) => (each.id === key.id ? key : each)) };
}

function withEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  encryption: StoredEncryption,
): StoredAccount {
  return { ...account, encryption: { ...account.encryption, [environment]: encryption } };
}
