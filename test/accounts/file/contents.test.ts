import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { Contents, readDifference, type Content } from '../../../src/accounts/file/contents.ts';
import { readAccounts } from '../../../src/accounts/file/read.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { Files } from '../../../src/yaml/files.ts';
import { YamlFile } from '../../../src/yaml/yaml-file.ts';
import { Folder } from '../../support/folder.ts';
import { runs } from '../../support/property.ts';
import { fileOf } from './generated.ts';

/** There is no file at this path, so references relative to it lead nowhere. */
const nowhere = '/nowhere/accounts.yaml';

/** Reads the whole text as an accounts file. The result is undefined if the text is invalid. */
function readWhole(text: string): Content | undefined {
  const file = new YamlFile(nowhere, new Files(), '/nowhere', text);
  const { accounts } = readAccounts(file, {}, undefined);
  return file.problems.length === 0 ? { text, accounts, starts: file.findItemLines('accounts') } : undefined;
}

/** The content of the file, or the error message if the file is refused. */
function outcomeOf(contents: Contents, path: string): Content | string {
  try {
    return contents.read(path);
  } catch (error) {
    return (error as Error).message;
  }
}

/** Lines that begin, end or continue a YAML construct, by themselves or together with the lines around them. */
const oddLines = [
  '---',
  '...',
  '%YAML 1.1',
  '# comment',
  '',
  '  # - id: a',
  'accounts:',
  'other: 1',
  '"',
  "'",
  '[',
  '{',
  ']',
  '}',
  '|',

  '    name: |',
  '    name: >+',
  '    name: "open',
  "    name: 'open",
  '    name: [open',
  '      text',
  '  text',
  'text',

  '  - id: account-0',
  '- id: account-1',
  '    - id: account-2',
  '  - { id: other, name: Other }',
  '-',
  '  -',
  '- ',
  '- - a',

  '    name: &a A',
  '    name: *a',
  '    <<: *a',
  '  ? x',
  '\t',
  '    active: false',
  '    active: off',
  '    keys: []',
  '    keys:',

  '    id: twice',
  '      - {id: k0-1, key: "sk_test_0123456789abcde0", createdAt: 2026-11-01}',
  '    name: ${NAME}',
  '\uFEFF',
] as const;

type Edit = (lines: readonly string[]) => readonly string[];

/** Edits as people make them by hand. Most leave a valid file. */
const edits: fc.Arbitrary<Edit> = fc
  .record({
    what: fc.constantFrom('insert', 'remove', 'replace', 'repeat', 'move', 'indent', 'character'),
    at: fc.nat(60),
    count: fc.integer({ min: 1, max: 8 }),
    to: fc.nat(60),
    line: fc.constantFrom(...oddLines),
  })
  .map(({ what, at, count, to, line }) => (lines) => {
    const place = at % (lines.length + 1);
    const some = lines.slice(place, place + count);
    const rest = lines.toSpliced(place, count);
    const target = to % (rest.length + 1);
    if (what === 'insert') return lines.toSpliced(place, 0, line);
    if (what === 'remove') return rest;
    if (what === 'replace') return lines.toSpliced(place, 1, line);
    if (what === 'repeat') return lines.toSpliced(to % (lines.length + 1), 0, ...some);
    if (what === 'move') return rest.toSpliced(target, 0, ...some);
    if (what === 'indent')
      return lines.toSpliced(place, count, ...some.map((each) => `${' '.repeat(to % 5)}${each.trim()}`));
    return lines.map((each, i) =>
      i === place ? `${each.slice(0, to)}${line.trim().slice(0, 1)}${each.slice(to)}` : each,
    );
  });

test('a changed text is read as it would be if the previous text were unknown, whatever was edited by hand', () => {
  const folder = new Folder({});
  const path = folder.file('accounts.yaml');
  fc.assert(
    fc.property(
      fileOf(6),
      fc.array(fc.array(edits, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 }),
      fc.constantFrom('\n', '\r\n'),
      (begun, versions, newline) => {
        const contents = new Contents(path, {});
        let lines: readonly string[] = begun.split('\n');
        folder.write({ 'accounts.yaml': lines.join(newline) });
        expect(outcomeOf(contents, path)).toMatchObject({ text: lines.join(newline) });
        for (const version of versions) {
          const edited = version.reduce((each, edit) => edit(each), lines);
          folder.write({ 'accounts.yaml': edited.join(newline) });
          const outcome = outcomeOf(contents, path);
          expect(outcome).toEqual(outcomeOf(new Contents(path, {}), path));
          if (typeof outcome !== 'string') lines = edited;
        }
      },
    ),
    { numRuns: runs(500) },
  );
});

test('a change to a generated file yields the same text whether or not the file was read before, and is known afterwards', () => {
  const folder = new Folder({});
  const path = folder.file('accounts.yaml');
  const rename = (account: StoredAccount): StoredAccount => ({ ...account, name: 'Another name' });
  fc.assert(
    fc.property(fileOf(6), fc.nat(5), fc.nat(5), (text, first, second) => {
      folder.write({ 'accounts.yaml': text });
      const contents = new Contents(path, {});
      const before = contents.read(path);
      const changed = [...new Set([first, second])].flatMap((place) => before.accounts[place] ?? []).map(rename);
      const after = contents.edited(path, before, changed, []);
      contents.know(after);
      folder.write({ 'accounts.yaml': after.text });
      expect(contents.read(path)).toBe(after);
      expect(after).toEqual(new Contents(path, {}).read(path));
      const whole = new Contents(path, {}).edited(path, { ...before, starts: undefined }, changed, []);
      expect(after).toEqual(whole);
    }),
    { numRuns: runs(300) },
  );
});

const many = (count: number): string =>
  `accounts:\n${Array.from({ length: count }, (_, i) => `  # Number ${i}\n  - id: a${i}\n    name: Name ${i}\n`).join('')}`;

test.each([
  ['in the middle', (text: string) => text.replace('Name 500', 'Other'), 4],
  ['at the beginning', (text: string) => text.replace('Name 0', 'Other'), 3],
  ['at the end', (text: string) => `${text}  - id: new\n    name: New\n`, 4],
  ['by a removal', (text: string) => text.replace('  - id: a500\n    name: Name 500\n', ''), 4],
  ['by a comment', (text: string) => text.replace('# Number 500', '# Other'), 4],
])('if a text of a thousand accounts differs %s, only a few accounts are read', (_, edit, most) => {
  const known = readWhole(many(1_000));
  if (known === undefined) throw new Error('it is valid');
  const read = vi.fn<typeof readWhole>(readWhole);
  const text = edit(known.text);
  expect(readDifference(known, text, read)).toEqual(readWhole(text));
  expect(read.mock.calls.map(([part]) => part.split('- id').length - 1)[0]).toBeLessThanOrEqual(most);
});

test.each([
  ['in flow style', 'accounts: [{ id: a, name: A }, { id: b, name: B }]\n'],
  ['with an anchor', 'accounts:\n  - { id: a, name: &name A }\n  - { id: b, name: B }\n'],
  ['with a directive', '%YAML 1.1\n---\naccounts:\n  - { id: a, name: A }\n  - { id: b, name: B }\n'],
  ['with a dash on a line of its own', 'accounts:\n  - { id: a, name: A }\n  -\n    id: b\n    name: B\n'],
])('accounts %s are read as a whole', (_, text) => {
  const known = readWhole(text);
  if (known === undefined) throw new Error('it is valid');
  expect(readDifference(known, text.replace('B', 'C'), readWhole)).toBeUndefined();
  const last = known.accounts.at(-1);
  if (last === undefined) throw new Error('it has accounts');
  const { accounts } = new Contents(nowhere, {}).edited(nowhere, known, [{ ...last, name: 'Other' }], []);
  expect(accounts.map(({ name }) => name)).toEqual([...known.accounts.slice(0, -1).map(({ name }) => name), 'Other']);
});

test.each([
  ['without the end of the line before it', (text: string) => text.replace('Name 4\n  # Number 5\n', 'Name 4')],
  [
    'with a different indentation than the others',
    (text: string) => text.replace('  - id: a0\n    name: Name 0', '- id: a0\n  name: Name 0'),
  ],
])('an account %s is an error, as in a text that is read as a whole', (_, edit) => {
  const known = readWhole(many(9));
  if (known === undefined) throw new Error('it is valid');
  const text = edit(known.text);
  expect(text).not.toBe(known.text);
  expect(readWhole(text)).toBeUndefined();
  expect(readDifference(known, text, readWhole)).toBeUndefined();
});

test('an account that depends on another file is read again each time', () => {
  const referring = new Folder({
    'accounts.yaml':
      'accounts:\n  - { id: a, name: A, keys: [{ id: k, key: { file: key }, createdAt: 2026-11-01 }] }\n  - { id: b, name: B }\n',
    key: `sk_test_${'1'.repeat(24)}`,
  });
  const file = referring.file('accounts.yaml');
  const contents = new Contents(file, {});
  const hash = (): unknown => contents.read(file).accounts[0]?.keys[0]?.hash;
  const before = hash();
  referring.write({ key: `sk_test_${'2'.repeat(24)}`, 'accounts.yaml': readFileSync(file, 'utf8').replace('B', 'C') });
  const after = hash();
  expect(after).not.toBe(before);
  referring.write({ key: `sk_test_${'3'.repeat(24)}` });
  expect(hash()).not.toBe(after);
});

test('an account that begins to depend on another file is read again each time', () => {
  const text =
    'accounts:\n  - { id: a, name: A, keys: [{ id: k, key: KEY, createdAt: 2026-11-01 }] }\n  - { id: b, name: B }\n';
  const begun = text.replace('KEY', `sk_test_${'1'.repeat(24)}`);
  const referring = new Folder({ 'accounts.yaml': begun, key: `sk_test_${'2'.repeat(24)}` });
  const file = referring.file('accounts.yaml');
  const contents = new Contents(file, {});
  const hash = (): unknown => contents.read(file).accounts[0]?.keys[0]?.hash;
  hash();
  referring.write({ 'accounts.yaml': text.replace('KEY', '{ file: key }') });
  const before = hash();
  referring.write({ key: `sk_test_${'3'.repeat(24)}` });
  expect(hash()).not.toBe(before);
});
