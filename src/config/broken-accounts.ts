import type { Account } from '../accounts/account.ts';
import { problemWithFile, type FileProblem } from '../yaml/file-problem.ts';
import type { StoreSettings } from './config.ts';

/** Maximum number of accounts that are reported. */
const maxProblems = 100;

/** The accounts whose credentials could be unwrapped, by id. */
export function workingAccounts(accounts: readonly Account[]): ReadonlyMap<string, Account> {
  return new Map(
    accounts.filter(({ unwrapError }) => unwrapError === undefined).map((account) => [account.id, account]),
  );
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
    .map(({ unwrapError = '' }) => problemWithFile(file, `${unwrapError}; the account keeps its current credentials`));
}
