import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keep, nameOf } from '../../trials/keep/keep.ts';
import { Folder } from '../support/folder.ts';

test('the output of a run is kept with its command, date, commit, machine and duration', async () => {
  const folder = new Folder({ 'a.txt': 'a' }).path;
  const git = (...args: readonly string[]): void => {
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.com', ...args], { cwd: folder });
  };
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '--message', 'base');
  const file = join(folder, 'figures/races.txt');
  expect(await keep(file, folder, ['node', '--print', '"813 races\\nno problems"'])).toBe(0);
  expect(readFileSync(file, 'utf8')).toMatch(
    /^\$ node --print .*\n\d{4}-\d\d-\d\d, commit [0-9a-f]{7,}, \d+ cores of .+, load [\d.]+ before, Linux .+, Node [\d.]+, \d+ s\n\n813 races\nno problems\n$/,
  );
});

test('the output of a run that found a fault is not kept', async () => {
  const folder = new Folder({}).path;
  const file = join(folder, 'races.txt');
  expect(await keep(file, folder, ['node', '--eval', 'console.log("1 problem"); process.exitCode = 3'])).toBe(3);
  expect(existsSync(file)).toBe(false);
});

test('the file is named after the script and those of its arguments that are words', () => {
  expect(nameOf('fuzz', ['--part', 'request-reader', '--cases', '1000', '--seed', '20261124'])).toBe(
    'fuzz-request-reader',
  );
  expect(nameOf('races', [])).toBe('races');
});
