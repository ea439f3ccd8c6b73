import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { testsOf, testsOfMutants } from '../../trials/mutation/changes.ts';
import { exclude } from '../../trials/mutation/vitest.config.ts';
import { unit } from '../../vitest.config.ts';

/** The patterns that a pattern with braces stands for. */
function alternatives(pattern: string): string[] {
  const found = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern);
  if (found === null) return [pattern];
  const [, before = '', names = '', after = ''] = found;
  return names.split(',').flatMap((name) => alternatives(`${before}${name}${after}`));
}

test.each([...unit, ...testsOfMutants(), ...exclude].flatMap(alternatives))(
  '%s, a pattern of tests, matches a file',
  (pattern) => {
    expect(globSync(pattern)).not.toEqual([]);
  },
);

test('mutants in a folder of src/ are tried with the tests of that folder', () => {
  const folders = ['accounts', 'audit', 'envelope', 'http1', 'kms', 'proxy'];
  expect(testsOfMutants()).toEqual(expect.arrayContaining(folders.map((folder) => `test/${folder}/**/*.test.ts`)));
  expect(testsOfMutants()).not.toContain('test/cli/**/*.test.ts');
  expect(testsOf('src/accounts/file/read.ts')).toBe('test/accounts/file/**/*.test.ts');
  expect(testsOf('src/proxy/admit/head.ts')).toBe('test/proxy/**/*.test.ts');
  expect(testsOf('src/app.ts')).toBe('test/*.test.ts');
});
