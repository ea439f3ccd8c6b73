import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { unit } from '../../vitest.config.ts';

/** The alternatives of a pattern with braces. */
function alternatives(pattern: string): string[] {
  const found = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern);
  if (found === null) return [pattern];
  const [, before = '', names = '', after = ''] = found;
  return names.split(',').flatMap((name) => alternatives(`${before}${name}${after}`));
}

test.each(unit.flatMap(alternatives))('%s, a pattern of the project unit, matches a file', (pattern) => {
  expect(globSync(pattern)).not.toEqual([]);
});
