import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** What the tests cannot see mutants in: it runs in a browser, or in programs that tests start. */
const notMutated = /^src\/(?:console|cli|demo)\/|^src\/main\.ts$|\.d\.ts$/;

/** Whether a file has mutants. */
export function isMutated(file: string): boolean {
  return file.endsWith('.ts') && !notMutated.test(file);
}

/** The sources that differ from a commit, uncommitted and new ones included. */
export function changedSources(folder: string, since: string): string[] {
  const changed = git(folder, 'diff', '--name-only', since, '--', 'src');
  const added = git(folder, 'ls-files', '--others', '--exclude-standard', '--', 'src');
  return `${changed}\n${added}`.split('\n').filter((file) => isMutated(file) && existsSync(join(folder, file)));
}

/** The output of git. @throws Error with git's message */
export function git(folder: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr.trim());
  return stdout.trim();
}
