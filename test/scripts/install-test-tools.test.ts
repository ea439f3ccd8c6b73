import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** Programs in Debian's essential packages, which are always installed. */
const essential = ['prlimit'];

test('every program without which tests are skipped is installed for the tests', () => {
  const scripts = ['.ci/run', 'scripts/install-test-tools.sh'].map((file) => readFileSync(file, 'utf8')).join('');
  const lists = [...scripts.matchAll(/^(?:packages|tools)=\(([^)]*)\)$/gm)].map(([, list = '']) => list);
  expect(lists).toHaveLength(2);
  // A package may contain more programs than the one by which the script detects it.
  const installed = new Set([...lists.join(' ').split(/[\s:]+/), 'kubectl', ...essential]);
  const sources = globSync('test/**/*.ts').map((file) => readFileSync(file, 'utf8'));
  const sought = sources.flatMap((source) =>
    [...source.matchAll(/missingTools\(([^)]*)\)/g)].flatMap(([, names = '']) =>
      [...names.matchAll(/'(\w+)'/g)].map(([, name = '']) => name),
    ),
  );
  expect(sought.length).toBeGreaterThan(5);
  expect([...new Set(sought)].filter((name) => !installed.has(name))).toEqual([]);
});
