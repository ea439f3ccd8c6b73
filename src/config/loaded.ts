import type { Account } from '../accounts/account.ts';
import type { FileProblem } from '../yaml/file-problem.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { Config, KmsSettings, Settings } from './config.ts';
import type { RefusedStore } from './try-store.ts';

/** The two files of a configuration. A file that one of them names belongs to it. */
export const configFiles = ['sidecar', 'accounts'] as const;
export type ConfigFile = (typeof configFiles)[number];

/** The content of a file, or its problems. */
export type FileContent<T> =
  | { readonly ok: true; readonly value: T; readonly warnings: readonly FileProblem[] }
  | { readonly ok: false; readonly problems: readonly FileProblem[] };

/** Differ if the content of a file, or of one that it names, is another. */
export type FileDigests = Readonly<Partial<Record<ConfigFile, string>>>;

/** The results of the two files. */
export interface LoadedFiles {
  readonly digests: FileDigests;
  readonly sidecar: FileContent<Settings>;
  /** Undefined: the accounts are not in a file. */
  readonly accounts: FileContent<readonly Account[]> | undefined;
  /** Absolute paths of all files read or tried, for watching. */
  readonly files: readonly string[];
  /** If the settings were refused for the store that they name. */
  readonly refused?: RefusedStore;
}

/** What a reload applies. Undefined settings stay as they are until a KMS has unwrapped the master keys of the new ones. */
export type ReloadedFiles = Omit<LoadedFiles, 'sidecar'> & { readonly sidecar: LoadedFiles['sidecar'] | undefined };

/** Master keys that only a KMS can unwrap. */
export interface LockedKeys {
  readonly kms: KmsSettings;
  readonly keys: readonly MasterKey[];
}

/** The master keys that are not in force and that the settings need; undefined if there are none. */
export function lockedKeys({ sidecar }: Pick<LoadedFiles, 'sidecar'>): LockedKeys | undefined {
  const { kms, store } = sidecar.ok ? sidecar.value : {};
  const keys = store?.masterKeys.filter(({ key }) => key === undefined) ?? [];
  return kms === undefined || keys.length === 0 ? undefined : { kms, keys };
}

/** The two files together. */
export type LoadResult = Pick<LoadedFiles, 'files' | 'digests'> &
  (
    | { readonly ok: true; readonly config: Config; readonly warnings: readonly FileProblem[] }
    | { readonly ok: false; readonly problems: readonly FileProblem[] }
  );

/** The configuration of two valid files, or the problems of both. */
export function combine({ sidecar, accounts, files, digests }: LoadedFiles): LoadResult {
  if (sidecar.ok && accounts?.ok !== false) {
    const config = { ...sidecar.value, accounts: accounts?.value ?? [] };
    return { ok: true, config, warnings: [...sidecar.warnings, ...(accounts?.warnings ?? [])], files, digests };
  }
  const problems = [sidecar, accounts].flatMap((content) => (content?.ok === false ? content.problems : []));
  return { ok: false, problems: [...new Set(problems)], files, digests };
}
