import type { Credentials } from '../envelope/credentials.ts';
import { codecOf, parseCredentials } from '../envelope/formats.ts';
import { AccountsError } from './accounts-error.ts';
import type { Account, Encryption } from './account.ts';
import { environmentNames, type EnvironmentName } from './api-key.ts';
import type { StoredAccount, StoredCredentials } from './store.ts';
import type { Vault } from './vault.ts';

/**
 * Converts a stored account for serving requests: with its credentials unwrapped, and without disabled ones unless a
 * grace accepts them.
 *
 * @throws AccountsError `master_key_missing`, `master_key_wrong`, `store_invalid`
 */
export function openAccount(stored: StoredAccount, vault: Vault): Account {
  const encryption: Partial<Record<EnvironmentName, Encryption>> = {};
  for (const environment of environmentNames) {
    const written = stored.encryption[environment];
    if (written === undefined) continue;
    const { enabled, encoding, credentials, previous } = written;
    const before =
      previous?.credentials && codecOf(openCredentials(previous.credentials, stored.id, environment, vault), encoding);
    if (!enabled) {
      if (previous !== undefined && before !== undefined) {
        encryption[environment] = { kind: 'ending', previous: before, until: previous.until };
      }
      continue;
    }
    encryption[environment] = {
      kind: 'on',
      current: codecOf(openCredentials(credentials, stored.id, environment, vault), encoding),
      createdAt: credentials.createdAt,
      grace: previous && { previous: before, until: previous.until },
    };
  }
  const { id, name, active, keys } = stored;
  return { id, name, active, keys, encryption };
}

/**
 * As `openAccount`, but an account whose credentials do not open is returned as `unopened`, so that other accounts are
 * still served.
 *
 * @throws AccountsError `master_key_missing`, `store_invalid`
 */
export function openIfPossible(stored: StoredAccount, vault: Vault): Account {
  try {
    return openAccount(stored, vault);
  } catch (error) {
    if (!(error instanceof AccountsError) || error.code !== 'master_key_wrong') throw error;
    const { id, name, active, keys } = stored;
    return { id, name, active, keys, encryption: {}, unopened: error.message };
  }
}

/** The credentials of two stored texts. Throws as `openAccount` does. */
export function openCredentials(
  { key, iv, format }: StoredCredentials,
  account: string,
  environment: EnvironmentName,
  vault: Vault,
): Credentials {
  const opened = parseCredentials(
    vault.unwrap(key, { account, environment, member: 'key' }),
    vault.unwrap(iv, { account, environment, member: 'iv' }),
    format,
  );
  if (!Array.isArray(opened)) return opened;
  const problems = opened.map(({ member, message }) => `the ${member} ${message}`).join('; ');
  throw new AccountsError('store_invalid', `account ${account}, ${environment}: ${problems}`);
}
