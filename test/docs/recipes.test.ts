import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** `path`, or `path` (`name that the file contains`). */
const reference = /`((?:src|test|trials|docs|scripts)\/[^`\s]*)`(?:\s+\(`([^`]+)`\))?/g;

function referencesIn(markdown: string): (readonly [path: string, name: string | undefined])[] {
  return [...markdown.matchAll(reference)].map(([, path = '', name]) => [path, name] as const);
}

test.each([
  ['docs/recipes.md', 40],
  ['CONTRIBUTING.md', 30],
])('every file that %s names exists and contains the name in brackets', (page, least) => {
  const references = referencesIn(readFileSync(page, 'utf8'));
  expect(references.length).toBeGreaterThan(least);
  const wrong = references.filter(
    ([path, name]) => !existsSync(path) || (name !== undefined && !readFileSync(path, 'utf8').includes(name)),
  );
  expect(wrong).toEqual([]);
});

test('there is a recipe for each common addition', () => {
  const headings = [...readFileSync('docs/recipes.md', 'utf8').matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
  expect(headings).toEqual([
    'A refusal',
    "An endpoint of the operators' API",
    'An envelope format',
    'A store of accounts',
    'A step of admission',
    'A limit',
    'A metric',
  ]);
});

test('CONTRIBUTING.md says what to touch first for each recipe, with files that the recipe names', () => {
  const [, additions = ''] = readFileSync('CONTRIBUTING.md', 'utf8').split(
    '\nWhat must I touch first to add something?',
  );
  const lines = [...additions.matchAll(/^- (an? [^:]*): (.*)$/gm)];
  const recipes = readFileSync('docs/recipes.md', 'utf8').split(/^## /m).slice(1);
  expect(lines).toHaveLength(recipes.length);
  for (const [, addition = '', files = ''] of lines) {
    const recipe = recipes.find((each) => each.toLowerCase().startsWith(addition.toLowerCase())) ?? '';
    const named = new Set(referencesIn(recipe).map(([path]) => path));
    expect({ addition, missing: referencesIn(files).filter(([path]) => !named.has(path)) }).toEqual({
      addition,
      missing: [],
    });
  }
});

test('a missing file and a missing name are detected', () => {
  expect(referencesIn('In `src/a.ts` (`b`), `docs/c.md`\n   (`d`) and `src/e/` (f).')).toEqual([
    ['src/a.ts', 'b'],
    ['docs/c.md', 'd'],
    ['src/e/', undefined],
  ]);
});
