import type { KeyObject } from 'node:crypto';
import { resolve } from 'node:path';
import { readAccounts } from '../accounts/file/read.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { openAccount } from '../accounts/open-account.ts';
import type { StoredAccount } from '../accounts/store.ts';
import { Vault } from '../accounts/vault.ts';
import { Files, displayName } from '../yaml/files.ts';
import type { Problem } from '../yaml/problem.ts';
import { validate } from '../yaml/validate.ts';
import type { Partly } from '../yaml/validate.ts';
import { valuesIn } from '../yaml/values.ts';
import type { Env } from '../yaml/values.ts';
import { WrongValue } from '../yaml/wrong-value.ts';
import { YamlFile } from '../yaml/yaml-file.ts';
import type { Config, Environment, Listener, OperatorsToken, ServerTls, UpstreamTarget } from './config.ts';
import { crossCheck } from './cross-checks.ts';
import { masterKeys } from './kinds.ts';
import { sidecarSchema } from './schema.ts';
import type { SidecarFile } from './schema.ts';

/** `files`: absolute paths of all files read or tried, for watching. */
export type LoadResult =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Problem[];
      readonly files: readonly string[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly files: readonly string[] };

/** Reads the sidecar's file and all that it names. Reports every problem at once, in the order of the files. */
export function loadConfig(path: string, env: Env): LoadResult {
  const files = new Files();
  const file = open(path, files);
  if (!(file instanceof YamlFile)) return { ok: false, problems: [file], files: [...files.seen] };

  const content = validate(file, sidecarSchema(valuesIn(file, env)));
  if (content !== undefined) crossCheck(file, content);
  const accountsFile = openAccounts(file, content?.accounts?.file, files);
  const keys = keysOf(file, content?.accounts, env);
  const vault = new Vault(keys);
  const stored = accountsFile === undefined ? [] : readAccounts(accountsFile, env, vault);

  const problems = [...file.problems, ...(accountsFile?.problems ?? [])];
  if (problems.length > 0) return { ok: false, problems, files: [...files.seen] };
  const warnings = [...file.warnings, ...(accountsFile?.warnings ?? [])];
  // Without a problem nothing is missing.
  const config = toConfig(content as SidecarFile, file.directory, keys, stored, vault);
  return { ok: true, config, warnings, files: [...files.seen] };
}

/**
 * Where the admin listener of a configuration is, or what is wrong. Mistakes elsewhere in the file, and in others, do not
 * matter: whoever asks wants to reach a sidecar that goes on running on what was valid before.
 */
export function loadAdmin(path: string, env: Env): Listener | readonly Problem[] {
  const file = open(path, new Files());
  if (!(file instanceof YamlFile)) return [file];
  const { host, port } = validate(file, sidecarSchema(valuesIn(file, env)))?.admin ?? {};
  return host === undefined || port === undefined ? file.problems : { host, port };
}

/** The master keys: those the file names, or else those of the environment. A database is not without. */
function keysOf(file: YamlFile, accounts: Partly<SidecarFile>['accounts'], env: Env): readonly KeyObject[] {
  const inDatabase = accounts?.postgres !== undefined;
  const path = inDatabase ? ['accounts', 'postgres', 'masterKey'] : ['accounts', 'masterKey'];
  const named = (inDatabase ? accounts.postgres : accounts)?.masterKey as readonly KeyObject[] | undefined;
  if (named !== undefined || file.isWrong(path)) return named ?? [];
  const text = env['SIDECAR_MASTER_KEY'];
  const keys = text === undefined ? [] : masterKeys.read(text);
  if (keys === undefined) {
    file.report(path, `in the environment variable SIDECAR_MASTER_KEY: expected ${masterKeys.expected}`);
  } else if (inDatabase && keys.length === 0) {
    file.report(path, `missing: expected ${masterKeys.expected}; or the environment variable SIDECAR_MASTER_KEY`);
  }
  return keys ?? [];
}

function open(path: string, files: Files): YamlFile | Problem {
  try {
    return new YamlFile(path, files);
  } catch (error) {
    if (!(error instanceof WrongValue)) throw error;
    return { file: displayName(path), line: 1, column: 1, path: '.', message: error.message };
  }
}

function openAccounts(file: YamlFile, path: string | undefined, files: Files): YamlFile | undefined {
  if (path === undefined) return undefined;
  const accounts = open(resolve(file.directory, path), files);
  if (accounts instanceof YamlFile) return accounts;
  file.report(['accounts', 'file'], accounts.message);
  return undefined;
}

function toConfig(
  file: SidecarFile,
  directory: string,
  keys: readonly KeyObject[],
  stored: readonly StoredAccount[],
  vault: Vault,
): Config {
  const { listen, operators, environments, accounts, cipherTest, tracing, documentation, ...rest } = file;
  return {
    ...rest,
    listen: { ...listen, tls: toTls(listen.tls) },
    operators: toOperators(operators),
    tracing,
    documentation,
    environments: environmentNames.flatMap((name) => toEnvironment(name, environments[name]) ?? []),
    cipherTest: cipherTest.environments,
    store: toStore(accounts, directory, keys),
    accounts: stored.map((account) => openAccount(account, vault)),
  };
}

function toOperators({ token, tokens, tls, ...listener }: SidecarFile['operators']): Config['operators'] {
  const operators =
    token ?? tokens?.map(({ name, role, account, token: hash }): OperatorsToken => ({ name, role, account, hash }));
  return operators && { ...listener, tokens: operators, tls: toTls(tls) };
}

function toStore(
  { file, postgres }: SidecarFile['accounts'],
  directory: string,
  keys: readonly KeyObject[],
): Config['store'] {
  if (postgres === undefined) return { kind: 'file', file: resolve(directory, file ?? ''), masterKeys: keys };
  const { url, cache, staleFor } = postgres;
  return { kind: 'postgres', url, masterKeys: keys, cache, staleFor };
}

function toTls(tls: SidecarFile['listen']['tls']): ServerTls | undefined {
  return tls && { ...tls, clientCa: tls.clientCa };
}

function toEnvironment(
  name: Environment['name'],
  environment: SidecarFile['environments']['test'],
): Environment | undefined {
  return environment && { name, hosts: environment.hosts ?? [], upstream: toTarget(environment.upstream) };
}

function toTarget(upstream: NonNullable<SidecarFile['environments']['test']>['upstream']): UpstreamTarget {
  if (!('url' in upstream))
    return { ...upstream, ca: undefined, cert: undefined, key: undefined, forwardsAuthorization: false };
  const { url, ca, cert, key, authorization } = upstream;
  return { ...url, ca, cert, key, forwardsAuthorization: authorization === 'forward' };
}
