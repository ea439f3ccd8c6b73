import { FileStore } from '../accounts/file/store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { AccountsError } from '../accounts/accounts-error.ts';
import { Vault } from '../accounts/vault.ts';
import { formatFileProblem } from '../yaml/file-problem.ts';
import type { Env } from '../yaml/values.ts';
import type { CommandStore } from './load.ts';

/**
 * The store of a command, which needs no directory, and the vault of its credentials. Files and connections are opened
 * on demand.
 *
 * @param origin of its changes, for the audit trail
 */
export function openStore(
  { settings, keyProblem }: CommandStore,
  env: Env,
  origin: string,
): { readonly store: Store; readonly vault: Vault } {
  const vault = new Vault(
    keyProblem === undefined
      ? settings.masterKeys
      : new AccountsError('master_key_missing', formatFileProblem(keyProblem)),
  );
  const { auditKeys } = settings;
  if (settings.type === 'postgres') return { store: new PostgresStore(settings.url, { origin, auditKeys }), vault };
  return { store: new FileStore({ file: settings.file, env, origin, auditKeys }), vault };
}
