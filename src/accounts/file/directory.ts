import type { Account } from '../account.ts';
import type { VersionedDirectory, KeyHolder } from '../directory.ts';
import { equalAccounts, equalKeys } from '../equal-accounts.ts';

/** A directory over accounts held in memory. Key hashes are unique: the accounts' file is checked for that. */
export function memoryDirectory(accounts: readonly Account[]): VersionedDirectory {
  const holders = new Map<string, KeyHolder>();
  for (const account of accounts) {
    for (const key of account.keys) holders.set(key.hash, { account, key });
  }
  const isInForce = (account: Account): boolean => {
    const { keys } = account;
    const held = accounts.find(({ id }) => id === account.id);
    return (
      held !== undefined &&
      equalAccounts(held, account) &&
      held.keys.length === keys.length &&
      held.keys.every((key) => keys.some((each) => equalKeys(each, key)))
    );
  };
  return { find: (hash) => holders.get(hash), holds: () => true, isInForce };
}
