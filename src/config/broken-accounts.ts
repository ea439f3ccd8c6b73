import type { Account } from '../accounts/account.ts';
import { problemWithFile, type FileProblem } from '../yaml/file-problem.ts';
import type { StoreSettings } from './config.ts';

/** Maximum number of accounts that are reported. */
const maxProblems = 100;

/** The accounts whose credentials could be unwrapped, by id. */
export function workingAccounts(accounts: readonly Account[]): ReadonlySet<string> {
  return new Set(accounts.filter(({ unwrapError }) => unwrapError === undefined).map(({ id }) => id));
}

/**
 * The accounts that work now and would stop working because their sealed credentials can no longer be opened.
 *
 * @param next the accounts in the new configuration
 * @param store the store that they are in
 * @param works whether an account works now
 */
export function findBroken(
  next: readonly Account[],
  store: StoreSettings,
  works: (id: string) => boolean,
): readonly FileProblem[] {
  const file = store.type === 'file' ? store.file : '';
  return next
    .filter(({ id, unwrapError }) => unwrapError !== undefined && works(id))
    .slice(0, maxProblems)
    .map(({ unwrapError = '' }) =>
      problemWithFile(file, `${unwrapError}; the account works with the current configuration`),
    );
}

/** The current accounts, but with keys revoked that are revoked in `next`, and with accounts inactive that are inactive in `next`. */
export function withRevocations(current: readonly Account[], next: readonly Account[]): readonly Account[] {
  const byId = new Map(next.map((account) => [account.id, account]));
  const revokedAt = new Map(next.flatMap(({ keys }) => keys.map((key) => [key.hash, key.revokedAt] as const)));
  return current.map((account) => ({
    ...account,
    active: account.active && byId.get(account.id)?.active !== false,
    keys: account.keys.map((key) => ({ ...key, revokedAt: key.revokedAt ?? revokedAt.get(key.hash) })),
  }));
}
