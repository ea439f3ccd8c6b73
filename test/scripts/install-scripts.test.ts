import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { Folder } from '../support/folder.ts';

/** npm 10 and the first versions of npm 11 do not know the setting. */
const knowsSetting = execFileSync('npm', ['config', 'list', '--long'], { encoding: 'utf8' }).includes(
  'strict-allow-scripts',
);

/** Installs a package with an install script under the project's settings. @returns whether the script ran */
function runs(...options: readonly string[]): boolean {
  const { allowScripts } = manifest;
  const folder = new Folder({
    '.npmrc': readFileSync('.npmrc', 'utf8'),
    'package.json': JSON.stringify({ name: 'x', dependencies: { unlisted: 'file:unlisted.tgz' }, allowScripts }),
  });
  const ran = folder.file('ran');
  mkdirSync(folder.file('package'));
  const script = { name: 'unlisted', version: '1.0.0', scripts: { preinstall: `touch ${ran}` } };
  writeFileSync(join(folder.file('package'), 'package.json'), JSON.stringify(script));
  const cwd = folder.path;
  execFileSync('tar', ['--create', '--gzip', '--file', 'unlisted.tgz', 'package'], { cwd });
  spawnSync('npm', ['install', '--offline', '--no-package-lock', ...options], { cwd });
  return existsSync(ran);
}

test("npm runs no package's install script that package.json does not name, if it knows the setting", () => {
  expect(runs()).toBe(!knowsSetting);
});

test('with --ignore-scripts, with which .ci/run installs, no version of npm runs the script', () => {
  expect(readFileSync('.ci/run', 'utf8')).toMatch(/^npm ci --ignore-scripts$/m);
  expect(runs('--ignore-scripts')).toBe(false);
});
