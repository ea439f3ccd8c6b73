import { isDeepStrictEqual } from 'node:util';
import type { Account } from '../accounts/account.ts';
import type { Revocable } from '../accounts/file/read.ts';
import { problemWithFile, type FileProblem } from '../yaml/file-problem.ts';
import type { Config, StoreSettings } from './config.ts';
import type { ReloadedFiles } from './loaded.ts';
import type { EpochMs } from '../times.ts';

/** Maximum number of accounts that are reported. */
const maxProblems = 100;

/** The accounts whose credentials could be unwrapped, by id. */
function workingAccounts(accounts: readonly Account[]): ReadonlyMap<string, Account> {
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
 * @param consequence what the sidecar does about each of them
 */
export function findBroken(
  next: readonly Account[],
  store: StoreSettings,
  works: (id: string) => boolean,
  consequence: string,
): readonly FileProblem[] {
  const file = store.type === 'file' ? store.file : '';
  return next
    .filter(({ id, unwrapError }) => unwrapError !== undefined && works(id))
    .slice(0, maxProblems)
    .map(({ unwrapError = '' }) => problemWithFile(file, `${unwrapError}; ${consequence}`));
}

/**
 * Decides which accounts are in force after a reload: those in the file, except for these cases.
 *
 * - An account that works now, but whose sealed credentials in the file do not open, keeps its current credentials. A wrong master key, or a
 *   damaged text, must not stop a merchant, and must not keep the changes of other merchants out of force.
 * - If no credentials open, and no API key is known, it is the file of another sidecar. The current accounts are kept.
 * - If the file is invalid, the current accounts are kept, but what is revoked in the file stops working. The command or the API that revoked
 *   a key may not know that this sidecar refuses the file.
 *
 * @returns the accounts, and the problems with the file; `running.accounts` itself if nothing changes
 */
export function chooseAccounts(
  { sidecar, accounts }: ReloadedFiles,
  running: Config,
): { readonly accounts: readonly Account[]; readonly problems: readonly FileProblem[] } {
  const { accounts: current } = running;
  const { store } = sidecar?.ok === true ? sidecar.value : running;
  if (store.type === 'postgres') return { accounts: current.length === 0 ? current : [], problems: [] };
  if (accounts === undefined) return { accounts: current, problems: [] };
  if (!accounts.ok) return { accounts: withRevocations(current, accounts.revocable), problems: accounts.problems };
  const next = accounts.value;
  const isUnopened = next.some(({ unwrapError }) => unwrapError !== undefined);
  const opens = next.some(({ encryption }) => Object.keys(encryption).length > 0);
  if (isUnopened && !opens && !shareKeys(current, next))
    return { accounts: current, problems: findBroken(next, store, () => true, 'the current accounts are kept') };
  const working = workingAccounts(current);
  const problems = findBroken(next, store, (id) => working.has(id), 'its current credentials are kept');
  if (problems.length === 0) return { accounts: next, problems };
  const keep = (account: Account): Account => {
    const { unwrapError, ...rest } = account;
    const before = working.get(account.id);
    return unwrapError === undefined || before === undefined ? account : { ...rest, encryption: before.encryption };
  };
  return { accounts: next.map(keep), problems };
}

function hashesIn(accounts: readonly Revocable[]): ReadonlySet<string> {
  return new Set(accounts.flatMap(({ keys }) => keys.map(({ hash }) => hash)));
}

function shareKeys(some: readonly Revocable[], others: readonly Revocable[]): boolean {
  const hashes = hashesIn(some);
  return others.some(({ keys }) => keys.some(({ hash }) => hashes.has(hash)));
}

/**
 * The current accounts without what `next` takes away: keys that are revoked in it or expire earlier, and accounts that are inactive in it.
 * Accounts and keys that are missing from `next` are kept, because it may be an old file, that of another sidecar, or half of a file. For the
 * same reason, an account is only the same if it has one of the same keys.
 *
 * @returns `current` itself if nothing changes
 */
function withRevocations(current: readonly Account[], next: readonly Revocable[]): readonly Account[] {
  const inactive = next.filter(({ active }) => !active);
  const inactiveIds = new Set(inactive.map(({ id }) => id));
  const inactiveHashes = hashesIn(inactive);
  // An invalid file may contain a key twice.
  const ends = Map.groupBy(
    next.flatMap(({ keys }) => keys),
    ({ hash }) => hash,
  );
  let isChanged = false;
  const changed = current.map((account) => {
    const keys = account.keys.map((key) => {
      const copies = ends.get(key.hash) ?? [];
      const revokedAt = copies.find((copy) => copy.revokedAt !== undefined)?.revokedAt;
      const expiresAt = Math.min(...copies.map((copy) => copy.expiresAt ?? Infinity)) as EpochMs;
      const isRevoked = key.revokedAt === undefined && revokedAt !== undefined;
      const isShorter = expiresAt < (key.expiresAt ?? Infinity);
      return isRevoked || isShorter
        ? { ...key, ...(isRevoked && { revokedAt }), ...(isShorter && { expiresAt }) }
        : key;
    });
    const isInactive = inactiveIds.has(account.id) && account.keys.some(({ hash }) => inactiveHashes.has(hash));
    const active = account.active && !isInactive;
    if (active === account.active && keys.every((key, i) => key === account.keys[i])) return account;
    isChanged = true;
    return { ...account, active, keys };
  });
  return isChanged ? changed : current;
}

/**
 * Returns whether an account works with the current settings, as far as files show. In the same file, its credentials may not open.
 *
 * @param current the accounts that the current settings name
 */
export function worksIn(
  running: StoreSettings,
  next: StoreSettings | undefined,
  current: readonly Account[],
): (id: string) => boolean {
  // If the current accounts are in a database, it is not known here which of them work.
  if (running.type === 'postgres') return () => true;
  const working = isSameFile(next, running) ? workingAccounts(current) : new Set(current.map(({ id }) => id));
  return (id) => working.has(id);
}

/** Whether both settings lead to the same accounts. The other settings of a store do not depend on the accounts. */
export function isSameStore(next: StoreSettings | undefined, running: StoreSettings): boolean {
  const { auditKeys, maxKeyAge } = running;
  return isDeepStrictEqual({ ...next, auditKeys, maxKeyAge }, running);
}

export function isSameFile(next: StoreSettings | undefined, running: StoreSettings): boolean {
  return next?.type === 'file' && running.type === 'file' && next.file === running.file;
}
