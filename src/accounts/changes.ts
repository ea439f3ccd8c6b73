import { generateCredentials, sameCredentials } from '../envelope/credentials.ts';
import type { Encoding } from '../envelope/encoding.ts';
import { AccountsError } from './accounts-error.ts';
import { environmentNames, isValidKey, type EnvironmentName } from './api-key.ts';
import { isInGrace } from './conditions.ts';
import { rfc3339 } from '../input/value-types.ts';
import { maxGrace } from './value-types.ts';
import { unwrapCredentials } from './unwrap-account.ts';
import type { IdempotencyKey, StoredAccount, StoredCredentials, StoredEncryption, StoredPrevious } from './store.ts';
import type { Vault } from './vault.ts';
import type { EpochMs } from '../times.ts';

// The rules for changes to accounts, which are the same for all stores. Each rule is a function that turns the current account into the new
// one. The rules for API keys are in key-changes.ts. All times are epoch milliseconds. A refused change throws an AccountsError.

/** Returns `account`, which was looked up by `id`. @throws `account_unknown` if it is undefined */
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

/**
 * Refuses to remove an account that requests could still use.
 *
 * @throws `account_in_use` if it is active or has a valid key
 */
export function refuseInUse({ id, active, keys }: StoredAccount, now: EpochMs): void {
  if (active) throw new AccountsError('account_in_use', `account ${id} is active: deactivate it first`);
  const valid = keys.filter((key) => isValidKey(key, now)).length;
  if (valid === 0) return;
  const count = valid === 1 ? 'a valid key: revoke it first' : `${valid} valid keys: revoke them first`;
  throw new AccountsError('account_in_use', `account ${id} has ${count}`);
}

export interface EnableOptions {
  /** The new encoding. If undefined, the encoding stays the same; if none was set, it becomes hex. */
  readonly encoding: Encoding | undefined;
  /** How long the previous credentials, or plaintext, are also accepted, in milliseconds; undefined for no grace period. */
  readonly grace: number | undefined;
  /** Whether credentials in use may be replaced. */
  readonly replace: boolean;
}

/**
 * Switches encryption on with new credentials. They are not compared with the credentials of the other environment, because a generated key
 * never equals another key, and because the other credentials may be wrapped with a master key that was lost.
 *
 * @throws `encryption_enabled` if encryption is on and `replace` is false, `grace_running` if a grace period is requested during another
 *   one, `master_key_wrong` if a grace period is requested for credentials that cannot be unwrapped
 */
export function enableEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  { encoding, grace, replace }: EnableOptions,
  now: EpochMs,
  vault: Vault,
): {
  readonly account: StoredAccount;
  readonly credentials: { readonly key: string; readonly iv: string };
  readonly fingerprint: string;
} {
  const before = account.encryption[environment];
  if (before?.enabled && !replace) {
    throw new AccountsError(
      'encryption_enabled',
      `encryption is already enabled for account ${account.id} in ${environment}: new credentials need --replace (in the API "replace": true)`,
    );
  }
  if (grace !== undefined) {
    refuseSecondGrace(before, now);
    // A grace period for credentials that cannot be unwrapped would be an empty promise, because sidecars could not use them.
    if (before?.enabled) unwrapCredentials(before.credentials, account.id, environment, vault);
  }
  const { key, iv, format, fingerprint } = generateCredentials();
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
    previous: grace === undefined ? undefined : toPrevious(before, now + grace),
  });
  return { account: after, credentials: { key, iv }, fingerprint };
}

/**
 * Changes the end of a running grace period, or ends it at once.
 *
 * @param until the new end; undefined: the grace period ends at once
 * @throws `grace_not_running`, `until_not_allowed`
 */
export function changeGrace(
  account: StoredAccount,
  environment: EnvironmentName,
  until: EpochMs | undefined,
  now: EpochMs,
): StoredAccount {
  const before = account.encryption[environment];
  if (before?.previous === undefined || !isInGrace(before, now)) {
    throw new AccountsError('grace_not_running', `account ${account.id} has no grace period in ${environment}`);
  }
  if (until !== undefined && (until <= now || until > now + maxGrace)) {
    throw new AccountsError(
      'until_not_allowed',
      'expected a time within the next 365 days: to end the grace period now, use "end"',
    );
  }
  const previous = until === undefined ? undefined : { ...before.previous, until };
  return withEncryption(account, environment, { ...before, previous });
}

/**
 * Switches encryption off. The credentials are deleted or, with a grace period, kept as the previous credentials.
 *
 * @param grace how long envelopes are still accepted, in milliseconds; undefined: they are refused at once
 * @throws `encryption_disabled` if encryption is off, `grace_running` if a grace period is requested during another one
 */
export function disableEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  grace: number | undefined,
  now: EpochMs,
): StoredAccount {
  const before = account.encryption[environment];
  if (!before?.enabled) {
    throw new AccountsError(
      'encryption_disabled',
      `encryption is not enabled for account ${account.id} in ${environment}`,
    );
  }
  if (grace !== undefined) refuseSecondGrace(before, now);
  return withEncryption(account, environment, {
    enabled: false,
    encoding: before.encoding,
    credentials: undefined,
    previous: grace === undefined ? undefined : toPrevious(before, now + grace),
  });
}

/**
 * Refuses a change that allows an account with encryption enabled in live to send plaintext there, or to do so for longer than before.
 *
 * @throws `forbidden`
 */
export function refusePlaintextInLive(before: StoredAccount | undefined, after: StoredAccount): void {
  const until = (account: StoredAccount | undefined): number => {
    const { enabled, previous } = account?.encryption.live ?? {};
    return enabled && previous !== undefined && previous.credentials === undefined ? previous.until : -Infinity;
  };
  if (until(after) <= until(before)) return;
  throw new AccountsError(
    'forbidden',
    'a grace period for plaintext in live requires the role admin: enable without a grace period',
  );
}

/** Refuses a grace period during another one, because only one set of previous credentials can be stored. */
function refuseSecondGrace(before: StoredEncryption | undefined, now: EpochMs): void {
  if (before?.previous === undefined || !isInGrace(before, now)) return;
  throw new AccountsError(
    'grace_running',
    `a grace period is running until ${rfc3339(before.previous.until)}: a new one would delete credentials that merchants may still use`,
  );
}

/**
 * Refuses an account that has the same AES key in test and live, because a leaked test key could then be used to read live traffic through
 * the test environment.
 *
 * @throws `credentials_equal`
 */
export function refuseEqual(account: StoredAccount, vault: Vault): void {
  if (!environmentNames.every((environment) => vault.isFor(environment))) return;
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

/**
 * Unwraps the account's credentials with `from` and wraps them with `to`. Strings that `to` would store in the same way stay unchanged.
 *
 * @param environments the environments in which credentials are rewrapped
 */
export function rewrap(
  account: StoredAccount,
  from: Vault,
  to: Vault,
  environments: readonly EnvironmentName[] = environmentNames,
): StoredAccount {
  const rewrapped = (credentials: StoredCredentials, environment: EnvironmentName): StoredCredentials => {
    const again = (text: string, member: 'key' | 'iv'): string => {
      const place = { account: account.id, environment, member };
      return to.isCurrent(text, place) ? text : to.wrap(from.unwrap(text, place), place);
    };
    return { ...credentials, key: again(credentials.key, 'key'), iv: again(credentials.iv, 'iv') };
  };
  const encryption: Partial<Record<EnvironmentName, StoredEncryption>> = { ...account.encryption };
  for (const environment of environments) {
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

/** A grace period for the credentials that were in use, or for plaintext if encryption was off. */
function toPrevious(before: StoredEncryption | undefined, until: EpochMs): StoredPrevious {
  const credentials = before?.enabled ? before.credentials : undefined;
  return { credentials: credentials && { ...credentials, createdAt: undefined }, until, lastUsedAt: undefined };
}

function withEncryption(
  account: StoredAccount,
  environment: EnvironmentName,
  encryption: StoredEncryption,
): StoredAccount {
  return { ...account, encryption: { ...account.encryption, [environment]: encryption } };
}
