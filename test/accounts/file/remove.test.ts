import { expect, test } from 'vitest';
import { readAccounts } from '../../../src/accounts/file/read.ts';
import { editedText } from '../../../src/accounts/file/edit.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Files } from '../../../src/yaml/files.ts';
import { YamlFile } from '../../../src/yaml/yaml-file.ts';
import { Folder } from '../../support/folder.ts';

/** Parses the contents of an accounts file, which must be valid. */
function read(text: string): StoredAccount[] {
  const file = new YamlFile(new Folder({ 'accounts.yaml': text }).file('accounts.yaml'), new Files());
  const { accounts } = readAccounts(file, {}, new Vault([]));
  expect(file.problems).toEqual([]);
  return accounts;
}

/** Removes some accounts from the text, and checks that the others are as before. */
function without(text: string, ...removed: readonly string[]): string {
  const accounts = read(text);
  const left = editedText(text, accounts, [], removed);
  expect(read(left)).toEqual(accounts.filter(({ id }) => !removed.includes(id)));
  return left;
}

const file = `# Ours.
accounts:
  # The first.
  - id: acme   # aligned
    name: Acme
    keys:
      - { id: a-1, key: sk_test_0123456789abcdef, createdAt: 2026-11-01 }
  # The second.
  - id: globex
    name: Globex # renamed

  - { id: last, name: "The last - of all" }
# The end.
`;

test.each([
  [
    'acme',
    [
      '  - id: acme   # aligned',
      '    name: Acme',
      '    keys:',
      '      - { id: a-1, key: sk_test_0123456789abcdef, createdAt: 2026-11-01 }',
    ],
  ],
  ['globex', ['  - id: globex', '    name: Globex # renamed']],
  ['last', ['  - { id: last, name: "The last - of all" }']],
])('if %s is removed, only its own lines disappear: comments and all other bytes stay', (id, lines) => {
  const left = without(file, id);
  expect(file.split('\n').filter((line) => !left.split('\n').includes(line))).toEqual(lines);
  expect(file.length - left.length).toBe(lines.join('\n').length + 1);
});

test('several accounts can be removed, and without any account an empty list is left', () => {
  expect(without(file, 'acme', 'last')).toContain('id: globex');
  expect(without(file, 'acme', 'globex', 'last')).toMatch(/^accounts: *\n?[^]*\[\s*\]/m);
});

test.each([
  ['with lines that end in CRLF', file.replaceAll('\n', '\r\n')],
  ['of a list in one line', 'accounts: [{ id: acme, name: A }, { id: globex, name: B }]\n'],
  ['with a dash on a line of its own', 'accounts:\n  -\n    id: acme\n    name: A\n  -\n    id: globex\n    name: B\n'],
  ['without a newline at its end', 'accounts:\n- id: globex\n  name: B\n- id: acme\n  name: A'],
])('an account is removed from a file %s', (_, text) => {
  const left = without(text, 'acme');
  expect(left).not.toContain('acme');
  if (text.includes('\r\n')) expect(left.replaceAll('\r\n', '')).not.toContain('\n');
});
