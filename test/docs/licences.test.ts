import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generate } from '../../scripts/generate-licences.ts';
import { nameOf, runTimePackages } from '../../scripts/run-time-packages.ts';

/** Licences that require only that their text is distributed. Accepting another one needs a decision, not just an update. */
const accepted = new Set(['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'ISC', 'MIT']);

const packages = [...runTimePackages()];

test('docs/licences.md is what `node scripts/generate-licences.ts` writes', async () => {
  expect(readFileSync('docs/licences.md', 'utf8')).toBe(await generate());
});

test('every run-time package has an accepted licence', () => {
  expect(packages.length).toBeGreaterThan(20);
  expect(packages.filter(([, { license }]) => !accepted.has(license ?? ''))).toEqual([]);
});

test('every installed package is the one in the lock file', () => {
  const installed = packages.map(([folder]) => {
    const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as Record<
      string,
      string
    >;
    return { name, version, license };
  });
  expect(installed).toEqual(
    packages.map(([folder, { version, license }]) => ({ name: nameOf(folder), version, license })),
  );
});

test('docs/dependencies.md has a line for every run-time dependency', () => {
  const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, object>;
  const [, atRunTime = ''] = readFileSync('docs/dependencies.md', 'utf8').split(/^## /m);
  const rows = (section: string): string[] =>
    [...section.matchAll(/^- `([^`]+)`/gm)].map(([, name = '']) => name).toSorted();
  expect(rows(atRunTime)).toEqual(Object.keys(dependencies ?? {}).toSorted());
});
