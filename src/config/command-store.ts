import { FileStore } from '../accounts/file/store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { Keyring } from '../accounts/keyring.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import { Vault } from '../accounts/vault.ts';
import { formatPath } from '../input/member-path.ts';
import { Files } from '../yaml/files.ts';
import { formatFileProblem, type FileProblem } from '../yaml/file-problem.ts';
import type { Env } from '../yaml/values.ts';
import type { KmsSettings, StoreSettings } from './config.ts';
import { masterKeyPath } from './cross-checks.ts';
import { readSidecar } from './load.ts';
import type { FileContent } from './loaded.ts';
import type { SidecarFile } from './schema.ts';

/**
 * The store that a command works on. If the master keys cannot be read, `keyProblem` says why. The command can still run, because most
 * commands need no master key.
 */
interface CommandStore {
  readonly settings: StoreSettings;
  readonly kms: KmsSettings | undefined;
  readonly keyProblem: FileProblem | undefined;
}

/**
 * The members that a command on accounts does not use. Problems in them must not keep a key from being revoked. Problems in other members,
 * and unknown members, end the command, because the command could otherwise use the wrong store or leave events unsigned.
 */
const unusedByCommands: ReadonlySet<string> = new Set<keyof SidecarFile>([
  'listen',
  'admin',
  'operators',
  'environments',
  'routes',
  'cipherTest',
  'trustedProxies',
  'limits',
  'timeouts',
  'report',
  'tracing',
  'documentation',
  'log',
]);

/** Reads the sidecar's file for a command that works on the store. Problems in members that the command does not use become warnings. */
export function loadCommandStore(path: string, env: Env): FileContent<CommandStore> {
  const { sidecar, store, kms } = readSidecar(path, env, new Files());
  if (sidecar.ok) {
    return { ok: true, value: { settings: sidecar.value.store, kms, keyProblem: undefined }, warnings: [] };
  }
  const isUnused = ({ path: at }: FileProblem): boolean => unusedByCommands.has(/^[^.[]*/.exec(at)?.[0] ?? '');
  const warnings = sidecar.problems.filter(isUnused);
  const others = sidecar.problems.filter((problem) => !isUnused(problem));
  const keyPath = formatPath(masterKeyPath(store?.type));
  const areForKeys = others.every(({ path: at }) => at === keyPath || at.startsWith(`${keyPath}.`));
  if (store === undefined || !areForKeys) return sidecar;
  return { ok: true, value: { settings: store, kms, keyProblem: others[0] }, warnings };
}

/** The opened store, and the keys to the credentials in it. Master keys are unwrapped, and the vault is opened, only on demand. */
interface OpenedStore {
  readonly store: Store;
  readonly keyring: Keyring;
  /** The unwrapped master keys. @throws AccountsError if the keyring cannot unwrap them */
  readonly masterKeys: () => Promise<readonly MasterKey[]>;
  readonly vault: () => Promise<Vault>;
}

/**
 * Opens the store for a command. Unlike a sidecar, a command needs no key directory.
 *
 * @param keyringOf creates the keyring for a KMS, or for master keys in the clear
 * @param origin the origin of the command's changes, for the audit trail
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
  // Most data that a command reads is not sealed, so a problem with the master keys is thrown only when sealed data is opened.
  const vault = async (): Promise<Vault> => new Vault(problem ?? (await masterKeys()));
  const opened = { keyring, masterKeys, vault };
  const { auditKeys } = settings;
  if (settings.type === 'postgres') return { store: new PostgresStore(settings.url, { origin, auditKeys }), ...opened };
  return { store: new FileStore({ file: settings.file, env, origin, auditKeys }), ...opened };
}
