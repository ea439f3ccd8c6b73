import type { Problem } from '../yaml/problem.ts';
import type { Config } from './config.ts';

export { formatProblem } from '../yaml/problem.ts';
export type { Problem } from '../yaml/problem.ts';

/** Environment variables, as in `process.env`. */
export type Env = Readonly<Record<string, string | undefined>>;

/** `files`: absolute paths of all files read or tried, for watching. */
export type LoadResult =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Problem[];
      readonly files: readonly string[];
    }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly files: readonly string[] };

/** Reads the sidecar's file and all it names. Reports every problem at once, never just the first. */
export function loadConfig(_file: string, _env: Env): LoadResult {
  throw new Error('not written yet');
}
