import { globSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { isMutated } from '../../trials/mutation/changes.ts';
import { exclude, include } from '../../trials/mutation/vitest.config.ts';
import { unit } from '../../vitest.config.ts';

/** The alternatives of a pattern with braces. */
function alternatives(pattern: string): string[] {
  const found = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern);
  if (found === null) return [pattern];
  const [, before = '', names = '', after = ''] = found;
  return names.split(',').flatMap((name) => alternatives(`${before}${name}${after}`));
}

test.each([...unit, ...include, ...exclude].flatMap(alternatives))(
  '%s, a pattern of tests, matches a file',
  (pattern) => {
    expect(globSync(pattern)).not.toEqual([]);
  },
);

test('mutants of each folder of src/ meet the tests of that folder', () => {
  const folders = readdirSync('src', { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && isMutated(`src/${entry.name}/file.ts`))
    .map(({ name }) => `test/${name}/**/*.test.ts`);
  expect(include.flatMap(alternatives)).toEqual(expect.arrayContaining(folders));
});
