import type { Account } from '../account.ts';
import type { VersionedDirectory, KeyHolder } from '../directory.ts';
import { differences } from '../differences.ts';

/** A directory over accounts held in memory. Key hashes are unique: the accounts' file is checked for that. */
export function memoryDirectory(accounts: readonly Account[]): VersionedDirectory {
  const holders = new Map<string, KeyHolder | 'unavailable'>();
  for (const account of accounts) {
    for (const key of account.keys) {
      holders.set(key.hash, account.unopened === undefined ? { account, key } : 'unavailable');
    }
  }
  const isInForce = (account: Account): boolean => {
    const held = accounts.find(({ id }) => id === account.id);
    return differences(held, account).length === 0;
  };
  return { find: (hash) => holders.get(hash), holds: () => true, isInForce };
}
