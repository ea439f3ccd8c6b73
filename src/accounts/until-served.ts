import { setTimeout as delay } from 'node:timers/promises';
import type { Account } from './account.ts';
import { AccountsError } from './accounts-error.ts';
import type { KeyDirectory } from './key-directory.ts';
import { unwrapIfPossible } from './unwrap-account.ts';
import type { RemoteOperations } from './operations-rpc.ts';
import type { Vault } from './vault.ts';

/**
 * The interval between comparisons of the directory with the account, in milliseconds, and the number of comparisons after which the
 * account is read again.
 */
const interval = 20;
const comparisons = 25;

interface UntilServedDependencies {
  readonly stored: (id: string) => ReturnType<RemoteOperations['stored']>;
  readonly vault: Vault;
  /** Finds the account as this sidecar serves it; undefined if there is none. */
  readonly find: (id: string) => Promise<object | undefined>;
  /** Called for each comparison, because a reload replaces the directory. */
  readonly directory: () => KeyDirectory;
}

/**
 * Waits until this sidecar uses the stored version of an account for requests. The account is read repeatedly, because another change may
 * follow the one that the caller made.
 *
 * @param patience the longest wait, in milliseconds
 * @returns false after the longest wait, or if the store cannot be read
 */
export async function untilServed(
  id: string,
  dependencies: UntilServedDependencies,
  patience: number,
): Promise<boolean> {
  // If the connection is lost before the notification of the change arrives, what is cached would go on being used.
  dependencies.directory().forget?.(id);
  const end = new AbortController();
  const over = delay(patience, false, { signal: end.signal });
  try {
    return await Promise.race([served(id, dependencies, end.signal), over]);
  } finally {
    end.abort();
  }
}

async function served(id: string, dependencies: UntilServedDependencies, ended: AbortSignal): Promise<boolean> {
  while (!ended.aborted) {
    const account = await read(id, dependencies);
    if (account === 'unreadable') return false;
    if (account === undefined) {
      // The account was removed from the store, so requests must no longer find it.
      if ((await dependencies.find(id)) === undefined) return true;
      await delay(interval);
      continue;
    }
    for (let i = 0; i < comparisons && !ended.aborted; i += 1) {
      if (dependencies.directory().serves(account)) return true;
      await delay(interval);
    }
  }
  return false;
}

/** Reads the stored account; undefined if it does not exist. */
async function read(
  id: string,
  { stored: readStored, vault }: UntilServedDependencies,
): Promise<Account | 'unreadable' | undefined> {
  try {
    const stored = await readStored(id);
    return stored && unwrapIfPossible(stored, vault);
  } catch (error) {
    if (error instanceof AccountsError) return 'unreadable';
    throw error;
  }
}
