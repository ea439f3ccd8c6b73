import type { Account } from '../account.ts';
import type { Directory, KeyHolder } from '../directory.ts';

/** A directory over accounts held in memory. Key hashes are unique: the accounts' file is checked for that. */
export function memoryDirectory(accounts: readonly Account[]): Directory {
  const holders = new Map<string, KeyHolder>();
  for (const account of accounts) {
    for (const key of account.keys) holders.set(key.hash, { account, key });
  }
  return { find: (hash) => holders.get(hash), holds: () => true };
}
