import type { Credentials } from '../envelope/credentials.ts';
import { createCodec, parseCredentials } from '../envelope/formats.ts';
import { AccountsError } from './accounts-error.ts';
import type { Account, Encryption } from './account.ts';
import { environmentNames, type EnvironmentName } from './api-key.ts';
import type { StoredAccount, StoredCredentials } from './store.ts';
import type { Vault } from './vault.ts';

/**
 * Converts a stored account for serving requests. Its credentials are unwrapped; disabled credentials are left out unless they are accepted
 * during a grace period. An environment whose master key this sidecar is not meant to have is left out, because the sidecar does not serve
 * that environment.
 *
 * @throws AccountsError `master_key_missing`, `master_key_wrong`, `store_invalid`
 */
export function unwrapAccount(stored: StoredAccount, vault: Vault): Account {
  const encryption: Partial<Record<EnvironmentName, Encryption>> = {};
  for (const environment of environmentNames) {
    const written = stored.encryption[environment];
    if (written === undefined || !vault.isFor(environment)) continue;
    const { enabled, encoding, credentials, previous } = written;
    const before =
      previous?.credentials &&
      createCodec(unwrapCredentials(previous.credentials, stored.id, environment, vault), encoding);
    if (!enabled) {
      if (previous !== undefined && before !== undefined) {
        encryption[environment] = { type: 'ending', previous: before, until: previous.until };
      }
      continue;
    }
    encryption[environment] = {
      type: 'on',
      current: createCodec(unwrapCredentials(credentials, stored.id, environment, vault), encoding),
      createdAt: credentials.createdAt,
      grace: previous && { previous: before, until: previous.until },
    };
  }
  const { id, name, active, keys } = stored;
  return { id, name, active, keys, encryption };
}

/**
 * The same as `unwrapAccount`, except that an account whose credentials cannot be unwrapped is returned with `unwrapError`, so that other
 * accounts are still served.
 *
 * @throws AccountsError `store_invalid`
 */
export function unwrapIfPossible(stored: StoredAccount, vault: Vault): Account {
  try {
    return unwrapAccount(stored, vault);
  } catch (error) {
    if (!(error instanceof AccountsError) || !error.code.startsWith('master_key_')) throw error;
    const { id, name, active, keys } = stored;
    return { id, name, active, keys, encryption: {}, unwrapError: error.message };
  }
}

/** Unwraps the key and the IV of stored credentials. Throws the same errors as `unwrapAccount`. */
export function unwrapCredentials(
  { key, iv, format }: StoredCredentials,
  account: string,
  environment: EnvironmentName,
  vault: Vault,
): Credentials {
  const parsed = parseCredentials(
    vault.unwrap(key, { account, environment, member: 'key' }),
    vault.unwrap(iv, { account, environment, member: 'iv' }),
    format,
  );
  if (!Array.isArray(parsed)) return parsed;
  const problems = parsed.map(({ member, message }) => `the ${member} ${message}`).join('; ');
  throw new AccountsError('store_invalid', `account ${account}, ${environment}: ${problems}`);
}
