import type { Account } from '../account.ts';
import { differences } from '../differences.ts';
import type { KeyDirectory, Principal } from '../key-directory.ts';

/** A directory over accounts held in memory. Key hashes are unique: the accounts file is checked for that. */
export function memoryDirectory(accounts: readonly Account[]): KeyDirectory {
  const byId = new Map(accounts.map((account) => [account.id, account]));
  const principals = new Map<string, Principal | 'unavailable'>();
  for (const { keys, ...account } of accounts) {
    for (const key of keys) {
      principals.set(key.hash, account.unwrapError === undefined ? { account, key } : 'unavailable');
    }
  }
  const serves = (account: Account): boolean => differences(byId.get(account.id), account).length === 0;
  return { find: (hash) => principals.get(hash), holds: () => true, serves };
}
