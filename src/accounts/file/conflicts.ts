import { AccountsError } from '../accounts-error.ts';
import type { StoredAccount, StoredKey } from '../store.ts';
import { isWrapped } from '../vault.ts';

/**
 * Refuses to store new credentials in the clear if the file has wrapped credentials. Otherwise, a command that is run without the master
 * key would store them in the clear by mistake.
 *
 * @throws AccountsError `master_key_missing`
 */
export function refuseInTheClear(before: readonly StoredAccount[], changed: readonly StoredAccount[]): void {
  const existing = new Set(before.flatMap(credentialTexts));
  const isNewInTheClear = (text: string): boolean => !isWrapped(text) && !existing.has(text);
  if (!changed.flatMap(credentialTexts).some(isNewInTheClear) || ![...existing].some(isWrapped)) return;
  const message = 'the file has sealed credentials, and new ones would be stored unsealed: set accounts.masterKey';
  throw new AccountsError('master_key_missing', message);
}

function credentialTexts({ encryption }: StoredAccount): string[] {
  return Object.values(encryption).flatMap(({ credentials, previous }) =>
    [credentials, previous?.credentials].flatMap((each) => (each === undefined ? [] : [each.key, each.iv])),
  );
}

/** @throws AccountsError `key_exists` if a changed account has a key with the id or the hash of another key */
export function refuseDuplicates(others: readonly StoredAccount[], changed: readonly StoredAccount[]): void {
  const [ids, hashes] = [new Set<string>(), new Set<string>()];
  const add = ({ id, hash }: StoredKey): void => void (ids.add(id), hashes.add(hash));
  for (const { keys } of others) keys.forEach(add);
  for (const account of changed) {
    for (const key of account.keys) {
      if (ids.has(key.id) || hashes.has(key.hash)) {
        throw new AccountsError('key_exists', `a key of account ${account.id} is already in the store: ${key.id}`);
      }
      add(key);
    }
  }
}
