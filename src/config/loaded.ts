import type { Account } from '../accounts/account.ts';
import type { Revocable } from '../accounts/file/read.ts';
import type { FileProblem } from '../yaml/file-problem.ts';
import type { FileVersions } from '../yaml/files.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import type { Config, KmsSettings, Settings } from './config.ts';
import type { RefusedStore } from './try-store.ts';

/** The two files of a configuration. Any other file that they name counts as a part of the one that names it. */
export const configFiles = ['sidecar', 'accounts'] as const;
export type ConfigFile = (typeof configFiles)[number];

/** The content of a file, or its problems. */
export type FileContent<T> =
  | { readonly ok: true; readonly value: T; readonly warnings: readonly FileProblem[] }
  | { readonly ok: false; readonly problems: readonly FileProblem[] };

/** The accounts in a file. Even if the file has problems, keys that are revoked in it stop working, as far as the file can be read. */
export type AccountsContent =
  | Extract<FileContent<readonly Account[]>, { readonly ok: true }>
  | (Extract<FileContent<never>, { readonly ok: false }> & { readonly revocable: readonly Revocable[] });

/** The digests of the files. A file's digest changes if its content or the content of a file that it names has changed. */
export type FileDigests = Readonly<Partial<Record<ConfigFile, string>>>;

/** The result of loading the two files. */
export interface LoadedFiles {
  readonly digests: FileDigests;
  readonly sidecar: FileContent<Settings>;
  /** Undefined if the accounts are not in a file. */
  readonly accounts: AccountsContent | undefined;
  /** All files to watch: those that were read, and those that could not be read. The versions are those before the files were read. */
  readonly files: FileVersions;
  /** Set if the settings were refused because of the store that they name. */
  readonly refused?: RefusedStore;
}

/**
 * The files that a reload applies. If `sidecar` is undefined, the current settings stay in force until a KMS has unwrapped the master keys
 * of the new settings.
 */
export type ReloadedFiles = Omit<LoadedFiles, 'sidecar'> & {
  readonly sidecar: LoadedFiles['sidecar'] | undefined;
  /** Whether the same files are read again because one of them was refused. Problems that have been logged are not logged again. */
  readonly isRepeated?: boolean;
};

/** Master keys that only a KMS can unwrap. */
export interface LockedKeys {
  readonly kms: KmsSettings;
  readonly keys: readonly MasterKey[];
}

/** The master keys that the settings need and that are still wrapped; undefined if there are none. */
export function lockedKeys({ sidecar }: Pick<LoadedFiles, 'sidecar'>): LockedKeys | undefined {
  const { kms, store } = sidecar.ok ? sidecar.value : {};
  const keys = store?.masterKeys.filter(({ key }) => key === undefined) ?? [];
  return kms === undefined || keys.length === 0 ? undefined : { kms, keys };
}

/** The result for both files together. */
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
