import type { KeyObject } from 'node:crypto';
import { resolve } from 'node:path';
import { countKeys, maxKeysInFile, readAccounts, type UnopenedSeverity } from '../accounts/file/read.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { unwrapIfPossible } from '../accounts/unwrap-account.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { StoredAccount } from '../accounts/store.ts';
import { isWrapped, Vault } from '../accounts/vault.ts';
import { Files } from '../yaml/files.ts';
import { formatPath, type MemberPath } from '../input/member-path.ts';
import { problemWithFile, type FileProblem } from '../yaml/file-problem.ts';
import { validate, type Partly } from '../input/validate.ts';
import { valuesIn, type Env } from '../yaml/values.ts';
import { WrongValue } from '../input/value-types.ts';
import { YamlFile } from '../yaml/yaml-file.ts';
import { findBroken, isSameFile, isSameStore, worksIn } from './broken-accounts.ts';
import type { KmsSettings, Listener, OperatorsToken, Settings, StoreSettings } from './config.ts';
import { crossCheck, masterKeyPath, openedLines } from './cross-checks.ts';
import { masterKeys } from './value-types.ts';
import { combine, lockedKeys, type FileContent, type LoadedFiles, type LoadResult } from './loaded.ts';
import { warnOfReadableSecrets } from './secret-files.ts';
import { sidecarSchema, type SidecarFile } from './schema.ts';
import { findSources } from './sources.ts';

/** Reads the sidecar's file and all files that it names. Reports all problems together, file by file. */
export function loadConfig(path: string, env: Env, unopened?: UnopenedSeverity): LoadResult {
  return combine(loadFiles(path, env, undefined, [], unopened));
}

/**
 * Reads the two files. They are independent: if one is invalid, the other is still applied. There is one exception: settings that name a
 * different store are applied only together with the accounts in that store.
 *
 * @param running the current store; undefined at startup. If the new settings cannot be applied, or must wait until a KMS has unwrapped
 *   their master keys, the accounts of this store are read, so that a key that is revoked in it stops working
 * @param unwrapped master keys that a KMS has unwrapped and that are not in use yet. Other wrapped keys stay wrapped, and credentials
 *   sealed with them are not opened
 * @param refusal why the store that the settings name cannot replace the current one, if that is known
 */
export function loadFiles(
  path: string,
  env: Env,
  running?: StoreSettings,
  unwrapped: readonly MasterKey[] = [],
  unopened?: UnopenedSeverity,
  refusal?: string,
): LoadedFiles {
  const files = new Files();
  const filesOfStore = new Files();
  const known = [...(running?.masterKeys ?? []), ...unwrapped];
  const { sidecar: read, store, problemWith } = readSidecar(path, env, files, known);
  const notApplied = (reason: string): FileProblem =>
    problemWith(['accounts'], `not applied; the current settings are kept: ${reason}`);
  const sidecar: typeof read =
    refusal === undefined || !read.ok ? read : { ok: false, problems: [notApplied(refusal)] };
  const loaded = (
    settings: LoadedFiles['sidecar'],
    accounts: LoadedFiles['accounts'],
    filesOfAccounts = filesOfStore,
  ): LoadedFiles => ({
    sidecar: settings,
    accounts,
    // If a file was read twice and has changed in between, its first version shows that it must be read again.
    files: new Map([...filesOfAccounts.seen, ...filesOfStore.seen, ...files.seen]),
    digests: { sidecar: files.digest, accounts: filesOfAccounts.digest },
  });
  if (running === undefined) {
    return loaded(sidecar, readStoreAccounts(store, env, filesOfStore, { problemWith, unopened }));
  }
  // A key that is revoked in the current file must stop working, even if none of the credentials can be opened any more.
  const evenOfAll = { unopened: 'warning, even of all' } as const;
  const filesOfCurrent = new Files();
  const readCurrent = (): LoadedFiles['accounts'] => readStoreAccounts(running, env, filesOfCurrent, evenOfAll);
  if (!sidecar.ok || lockedKeys({ sidecar }) !== undefined) return loaded(sidecar, readCurrent(), filesOfCurrent);
  const isSame = isSameStore(store, running);
  const severity = isSame || isSameFile(store, running) ? evenOfAll : { unopened };
  const accounts = readStoreAccounts(store, env, filesOfStore, { problemWith, ...severity });
  if (isSame || accounts === undefined) return loaded(sidecar, accounts);
  const current = readCurrent();
  const refused = (reason: string, problems: readonly FileProblem[]): LoadedFiles =>
    loaded({ ok: false, problems: [notApplied(reason), ...problems] }, current, filesOfCurrent);
  if (!accounts.ok) return refused('the accounts that the new settings name are not valid', accounts.problems);
  const works = worksIn(running, store, current?.ok === true ? current.value : []);
  const broken = findBroken(accounts.value, sidecar.value.store, works, 'the current settings are kept');
  return broken.length === 0
    ? loaded(sidecar, accounts)
    : refused('some accounts that work now would stop working', broken);
}

/** The number of accounts with which a change to the file takes about a second. */
const maxAccounts = 1_000;

interface ReadSidecar {
  readonly sidecar: FileContent<Settings>;
  /** Set even if other members are invalid; undefined if the file does not say which store to use. */
  readonly store: StoreSettings | undefined;
  /** Set even if other members are invalid. */
  readonly kms: KmsSettings | undefined;
  /** Creates a `FileProblem` for a member of the file. */
  readonly problemWith: ProblemWith;
}

type ProblemWith = (path: MemberPath, message: string) => FileProblem;

/** Reads only the sidecar's file. */
export function readSidecar(path: string, env: Env, files: Files, known: readonly MasterKey[] = []): ReadSidecar {
  const file = open(path, files);
  if (!(file instanceof YamlFile)) {
    const problemWith: ProblemWith = (at, message) => problemWithFile(path, message, formatPath(at));
    return { sidecar: { ok: false, problems: [file] }, store: undefined, kms: undefined, problemWith };
  }
  const content = validate(file, sidecarSchema(valuesIn(file, env)), true);
  if (content !== undefined) crossCheck(file, content);
  const keys = readMasterKeys(file, content, env, known);
  const problemWith: ProblemWith = (at, message) => file.problemAt(at, message);
  if (file.problems.length > 0) {
    const kms = file.isWrongWithin(['kms']) ? undefined : toKms(content?.kms as SidecarFile['kms'], file.directory);
    const auditKeys = (content?.audit?.key ?? []) as readonly KeyObject[];
    const store = partialStore(content?.accounts, file.directory, {
      masterKeys: keys,
      auditKeys,
      maxKeyAge: content?.keys?.maxAge,
    });
    return { sidecar: { ok: false, problems: file.problems }, store, kms, problemWith };
  }
  warnOfReadableSecrets(file, content?.kms !== undefined);
  // If there are no problems, no member is missing.
  const value = { ...toSettings(content as SidecarFile, file.directory, keys), sources: findSources(file.value) };
  return { sidecar: { ok: true, value, warnings: file.warnings }, store: value.store, kms: value.kms, problemWith };
}

interface Reporting {
  /** Creates the `FileProblem` for an accounts file that cannot be read, at the member that names the file. Default: at the file itself. */
  readonly problemWith?: ProblemWith;
  readonly unopened: UnopenedSeverity | undefined;
}

function readStoreAccounts(
  store: StoreSettings | undefined,
  env: Env,
  files: Files,
  { problemWith, unopened = 'warning' }: Reporting,
): LoadedFiles['accounts'] {
  if (store?.type !== 'file') return undefined;
  const file = open(store.file, files);
  if (!(file instanceof YamlFile)) {
    return { ok: false, problems: [problemWith?.(['accounts', 'file'], file.message) ?? file], revocable: [] };
  }
  const isOpen = store.masterKeys.every(({ key }) => key !== undefined);
  const vault = isOpen ? new Vault(store.masterKeys) : undefined;
  const { accounts: stored, revocable } = readAccounts(file, env, vault, unopened);
  if (file.problems.length > 0) return { ok: false, problems: file.problems, revocable };
  if (vault === undefined) return { ok: true, value: [], warnings: file.warnings };
  const clear = stored.filter(hasClearCredentials).length;
  if (clear > 0) {
    const message = `${clear} ${clear === 1 ? 'account has' : 'accounts have'} credentials in the clear: `;
    const first = store.masterKeys.length > 0 ? '' : 'set accounts.masterKey, then ';
    file.warn(
      ['accounts'],
      `${message}${first}run "accounts rekey --new-master-key-file FILE" with the file of the master key`,
    );
  }
  const counts = [
    ['accounts', stored.length, maxAccounts],
    ['API keys', countKeys(stored), maxKeysInFile],
  ] as const;
  for (const [what, count, most] of counts) {
    if (count <= most) continue;
    const message = `${count} ${what}: every start and every change reads them all; keep more than ${most}`;
    file.warn(['accounts'], `${message} in PostgreSQL`);
  }
  return { ok: true, value: stored.map((account) => unwrapIfPossible(account, vault)), warnings: file.warnings };
}

/**
 * The address of the admin listener, or the problems with it. Other problems are ignored, because the caller wants to reach a sidecar that
 * may run on an earlier, valid configuration.
 */
export function loadAdmin(path: string, env: Env): FileContent<Listener> {
  const file = open(path, new Files());
  if (!(file instanceof YamlFile)) return { ok: false, problems: [file] };
  const { host, port } = validate(file, sidecarSchema(valuesIn(file, env)), true)?.admin ?? {};
  if (host === undefined || port === undefined) return { ok: false, problems: file.problems };
  return { ok: true, value: { host, port }, warnings: [] };
}

/**
 * The KMS that the file names; undefined if there is none. Problems with other members are ignored, because master keys are created before
 * a configuration is complete.
 */
export function loadKms(path: string, env: Env): FileContent<KmsSettings | undefined> {
  const file = open(path, new Files());
  if (!(file instanceof YamlFile)) return { ok: false, problems: [file] };
  const { kms } = validate(file, sidecarSchema(valuesIn(file, env)), true) ?? {};
  const problems = file.problems.filter(({ path: at }) => file.value === undefined || /^kms\b/.test(at));
  if (problems.length > 0) return { ok: false, problems };
  // If there are no problems, no member is missing.
  return { ok: true, value: toKms(kms as KmsSettings | undefined, file.directory), warnings: [] };
}

function toKms(kms: SidecarFile['kms'], directory: string): KmsSettings | undefined {
  return kms && { ...kms, socket: resolve(directory, kms.socket) };
}

/** The master keys that the file names or, if it names none, the keys in `SIDECAR_MASTER_KEY`. A database requires a master key. */
function readMasterKeys(
  file: YamlFile,
  content: Partly<SidecarFile> | undefined,
  env: Env,
  known: readonly MasterKey[],
): readonly MasterKey[] {
  const { accounts } = content ?? {};
  const inDatabase = accounts?.postgres !== undefined;
  const path = masterKeyPath(inDatabase ? 'postgres' : 'file');
  const named = (inDatabase ? accounts.postgres : accounts)?.masterKey as readonly MasterKey[] | undefined;
  const hasKms = content?.kms !== undefined || file.isWrongWithin(['kms']);
  if (file.isWrongWithin(path)) return [];
  if (named !== undefined) return openedLines(file, path, named, hasKms, known);
  const text = env['SIDECAR_MASTER_KEY'];
  const keys = text === undefined ? [] : masterKeys.read(text);
  if (keys === undefined) {
    file.report(path, `in the environment variable SIDECAR_MASTER_KEY: expected ${masterKeys.expected}`);
  } else if (inDatabase && keys.length === 0) {
    file.report(path, `missing: expected ${masterKeys.expected}; or the environment variable SIDECAR_MASTER_KEY`);
  }
  return openedLines(file, path, keys ?? [], hasKms, known);
}

function hasClearCredentials({ encryption }: StoredAccount): boolean {
  return Object.values(encryption).some(
    (one) =>
      (one.enabled && !isWrapped(one.credentials.key)) ||
      (one.previous?.credentials && !isWrapped(one.previous.credentials.key)),
  );
}

function open(path: string, files: Files): YamlFile | FileProblem {
  try {
    return new YamlFile(path, files);
  } catch (error) {
    if (!(error instanceof WrongValue)) throw error;
    return problemWithFile(path, error.message);
  }
}

function toSettings(file: SidecarFile, directory: string, keys: readonly MasterKey[]): Omit<Settings, 'sources'> {
  const { operators, environments, accounts, audit, keys: rules, kms, ...rest } = file;
  return {
    ...rest,
    operators: toOperators(operators),
    kms: toKms(kms, directory),
    environments: environmentNames.flatMap((name) => {
      const environment = environments[name];
      return environment === undefined ? [] : [{ name, ...environment, hosts: environment.hosts ?? [] }];
    }),
    store: toStore(accounts, directory, { masterKeys: keys, auditKeys: audit.key ?? [], maxKeyAge: rules.maxAge }),
  };
}

function toOperators({ token, tokens, ...listener }: SidecarFile['operators']): Settings['operators'] {
  const operators =
    token ??
    tokens?.map(({ token: hash, ...operator }): OperatorsToken => ({ ...operator, account: operator.account, hash }));
  return operators && { ...listener, tokens: operators };
}

type StoreKeys = Pick<StoreSettings, 'masterKeys' | 'auditKeys' | 'maxKeyAge'>;

/** The store named by a configuration that has problems; undefined if its file, its URL or a setting of its cache is not known. */
function partialStore(
  accounts: Partly<SidecarFile>['accounts'],
  directory: string,
  keys: StoreKeys,
): StoreSettings | undefined {
  if (accounts?.postgres === undefined) {
    return accounts?.file === undefined ? undefined : toStore({ file: accounts.file }, directory, keys);
  }
  const { url, cache, staleFor } = accounts.postgres;
  if (url === undefined || cache === undefined || staleFor === undefined) return undefined;
  return { type: 'postgres', url, ...keys, cache, staleFor };
}

function toStore({ file = '', postgres }: SidecarFile['accounts'], directory: string, keys: StoreKeys): StoreSettings {
  if (postgres === undefined) return { type: 'file', file: resolve(directory, file), ...keys };
  const { url, cache, staleFor } = postgres;
  return { type: 'postgres', url, ...keys, cache, staleFor };
}
