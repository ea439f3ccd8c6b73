import type { Account } from '../accounts/account.ts';
import type { FileProblem } from '../yaml/file-problem.ts';
import type { Config, Settings } from './config.ts';

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
}

/** The two files together. */
export type LoadResult = Pick<LoadedFiles, 'files'> &
  (
    | { readonly ok: true; readonly config: Config; readonly warnings: readonly FileProblem[] }
    | { readonly ok: false; readonly problems: readonly FileProblem[] }
  );

/** The configuration of two valid files, or the problems of both. */
export function combine({ sidecar, accounts, files }: LoadedFiles): LoadResult {
  if (sidecar.ok && accounts?.ok !== false) {
    const config = { ...sidecar.value, accounts: accounts?.value ?? [] };
    return { ok: true, config, warnings: [...sidecar.warnings, ...(accounts?.warnings ?? [])], files };
  }
  const problems = [sidecar, accounts].flatMap((content) => (content?.ok === false ? content.problems : []));
  return { ok: false, problems: [...new Set(problems)], files };
}
