import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const folders = ['bench', 'config', 'deploy', 'docs', 'scripts', 'src', 'test', 'trials'].join('|');

/** `path`, or `path` (`name that the file has`). */
const reference = new RegExp(`\`((?:${folders})/[^\`\\s]*)\`(?:\\s+\\(\`([^\`]+)\`\\))?`, 'g');

/** Files of the root, and commands. */
const others = /`(?:[A-Z]+\.md|(?:node|npm|sidecar) [^`]+)`/g;

function referencesIn(markdown: string): (readonly [path: string, name: string | undefined])[] {
  return [...markdown.matchAll(reference)].map(([, path = '', name]) => [path, name] as const);
}

/** Names in back-quotes without a file that has them. */
function looseNames(markdown: string): string[] {
  return (
    markdown
      .replaceAll(reference, '')
      .replaceAll(others, '')
      .match(/`[^`]+`/g) ?? []
  );
}

/** Whether a file has a name: an identifier is declared there, other text is a part of it. Imports do not count. */
function has(file: string, name: string): boolean {
  const code = file.replaceAll(/^import [^;]*;$/gm, '');
  if (!/^\w+$/.test(name)) return code.includes(name);
  const declared = String.raw`(?:(?:const|function|class|interface|type|get) |^ +(?:readonly )?#?)${name}(?:\??:|[ (;<=])`;
  return new RegExp(declared, 'm').test(code);
}

/** The walk through the code, without its questions. */
function readWalk(): string {
  const [, walk = ''] = readFileSync('CONTRIBUTING.md', 'utf8').split('\n## A walk through the code\n');
  return (walk.split('\n## ')[0] ?? '').replaceAll(/^- [^?]*\? /gm, '- ');
}

test.each([
  ['docs/recipes.md', 70],
  ['CONTRIBUTING.md', 50],
])('every file that %s names exists and has the name in brackets', (page, least) => {
  const references = referencesIn(readFileSync(page, 'utf8'));
  expect(references.length).toBeGreaterThan(least);
  const wrong = references.filter(
    ([path, name]) => !existsSync(path) || (name !== undefined && !has(readFileSync(path, 'utf8'), name)),
  );
  expect(wrong).toEqual([]);
});

test('every name in the recipes and in the walk is in brackets after its file', () => {
  expect(looseNames(readFileSync('docs/recipes.md', 'utf8'))).toEqual([]);
  expect(looseNames(readWalk())).toEqual([]);
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

test('a reference may span two lines, and a name without a file is detected', () => {
  const text =
    'In `src/a.ts` (`b`), `deploy/c.yaml`\n   (`d`) and `src/e/` (f), run `npm test`, see `G` in `README.md`.';
  expect(referencesIn(text)).toEqual([
    ['src/a.ts', 'b'],
    ['deploy/c.yaml', 'd'],
    ['src/e/', undefined],
  ]);
  expect(looseNames(text)).toEqual(['`G`']);
});

test.each([
  ['export function openStore(settings: Settings): Store {', true],
  ['export function openStores(settings: Settings): Stores {', false],
  ["import { openStore } from './command-store.ts';", false],
  ['  const { store } = openStore(settings);', false],
  ['  readonly openStore: () => Store;', true],
  ['  openStore,', false],
])('a file with %j has the name openStore: %j', (line, expected) => {
  expect(has(line, 'openStore')).toBe(expected);
});
