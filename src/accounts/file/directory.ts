import type { Account } from '../account.ts';
import { differences } from '../differences.ts';
import type { KeyDirectory, Principal } from '../key-directory.ts';

/** A directory of accounts that are held in memory. Key hashes are unique, which is checked when the accounts file is read. */
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
