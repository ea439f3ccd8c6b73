import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Code in which mutants would go unnoticed, because it runs in a browser or in programs that tests start. */
const notMutated = /^src\/(?:console|cli|demo)\/|^src\/main\.ts$|\.d\.ts$/;

/** The tests for the mutated folders of src/, and for the files next to these folders. A folder and its tests have the same name. */
export function testsOfMutants(): string[] {
  const folders = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const mutated = folders.filter(({ name }) => !notMutated.test(`src/${name}/`));
  return ['test/*.test.ts', ...mutated.map(({ name }) => `test/${name}/**/*.test.ts`)];
}

/** The tests of the file's folder, or of the nearest parent folder that has tests. */
export function testsOf(file: string): string {
  let folder = dirname(file).replace(/^src/, 'test');
  while (!existsSync(folder)) folder = dirname(folder);
  return folder === 'test' ? 'test/*.test.ts' : `${folder}/**/*.test.ts`;
}

/** The sources that differ from a commit, including uncommitted and new ones. */
export function changedSources(folder: string, since: string): string[] {
  const changed = git(folder, 'diff', '--name-only', since, '--', 'src');
  const added = git(folder, 'ls-files', '--others', '--exclude-standard', '--', 'src');
  return `${changed}\n${added}`
    .split('\n')
    .filter((file) => file.endsWith('.ts') && !notMutated.test(file) && existsSync(join(folder, file)));
}

/** The output of git. @throws Error with git's message */
export function git(folder: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr.trim());
  return stdout.trim();
}
