import { FileStore } from '../accounts/file/store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring } from '../accounts/keyring.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import { Vault } from '../accounts/vault.ts';
import { formatFileProblem } from '../yaml/file-problem.ts';
import type { Env } from '../yaml/values.ts';
import type { KmsSettings } from './config.ts';
import type { CommandStore } from './load.ts';

/** The store of a command, and what opens its credentials. All of it is opened on demand. */
interface OpenedStore {
  readonly store: Store;
  readonly keyring: Keyring;
  /** The master keys, unwrapped. @throws AccountsError if the keyring cannot */
  readonly masterKeys: () => Promise<readonly MasterKey[]>;
  readonly vault: () => Promise<Vault>;
}

/**
 * The store of a command, which needs no directory.
 *
 * @param keyringOf makes the keyring of a configuration
 * @param origin of its changes, for the audit trail
 */
export function openStore(
  { settings, kms, keyProblem }: CommandStore,
  env: Env,
  keyringOf: (kms: KmsSettings | undefined) => Keyring,
  origin: string,
): OpenedStore {
  const keyring = keyringOf(kms);
  let unwrapped: Promise<readonly MasterKey[]> | undefined;
  const problem = keyProblem && new AccountsError('master_key_missing', formatFileProblem(keyProblem));
  const masterKeys = async (): Promise<readonly MasterKey[]> => {
    if (problem !== undefined) throw problem;
    return (unwrapped ??= Promise.all(settings.masterKeys.map((key) => keyring.unwrap(key))));
  };
  // Most texts are not sealed: the problem matters once one is.
  const vault = async (): Promise<Vault> => new Vault(problem ?? (await masterKeys()));
  const opened = { keyring, masterKeys, vault };
  const { auditKeys } = settings;
  if (settings.type === 'postgres') return { store: new PostgresStore(settings.url, { origin, auditKeys }), ...opened };
  return { store: new FileStore({ file: settings.file, env, origin, auditKeys }), ...opened };
}
