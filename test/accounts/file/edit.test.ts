import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { editedText } from '../../../src/accounts/file/edit.ts';
import { toMembers } from '../../../src/accounts/file/members.ts';
import { readAccounts } from '../../../src/accounts/file/read.ts';
import { disableEncryption, enableEncryption, newAccount } from '../../../src/accounts/changes.ts';
import { issueKey, revokeKey } from '../../../src/accounts/key-changes.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Files } from '../../../src/yaml/files.ts';
import { YamlFile } from '../../../src/yaml/yaml-file.ts';
import { Folder } from '../../support/folder.ts';
import { runs } from '../../support/property.ts';
import { fileOf } from './generated.ts';

const now = Date.parse('2026-11-21T10:00:00Z');
const clear = new Vault([]);

/** Parses the contents of an accounts file, which must be valid. */
function read(text: string): StoredAccount[] {
  const file = new YamlFile(new Folder({ 'accounts.yaml': text }).file('accounts.yaml'), new Files());
  const { accounts } = readAccounts(file, { AES: 'k'.repeat(32) }, clear);
  expect(file.problems).toEqual([]);
  return accounts;
}

/** Returns the text after the account with this id has been changed. With an unknown id, a new account is added. */
function changed(text: string, id: string, change: (account: StoredAccount) => StoredAccount): string {
  const before = read(text);
  const account = before.find((each) => each.id === id);
  const after = change(account ?? newAccount(undefined, id, `Account ${id}`));
  const result = editedText(text, before, [after], []);
  const expected = account === undefined ? [...before, after] : before.map((each) => (each.id === id ? after : each));
  expect(read(result).map(toMembers)).toEqual(expected.map(toMembers));
  return result;
}

const deactivated = (account: StoredAccount): StoredAccount => ({ ...account, active: false });
const unchanged = (account: StoredAccount): StoredAccount => account;

/** The lines that differ, as `diff` prints them. */
function diff(before: string, after: string): string[] {
  const [old, fresh] = [before.split('\n'), after.split('\n')];
  return [
    ...old.filter((line) => !fresh.includes(line)).map((line) => `-${line}`),
    ...fresh.filter((line) => !old.includes(line)).map((line) => `+${line}`),
  ];
}

const file = `# Our accounts.

accounts: # in the order in which they came

  # The first.
  - id: acme   # aligned
    name:   "Acme Stores"
    active: true # since May
    keys:
      # On the server.
      - { id: a-1, key: sk_test_0123456789abcdef,   createdAt: 2026-11-01 } # old
      - id: a-2
        key: 'pk_test_0123456789abcdef'
        createdAt: 2026-11-01
    encryption:
      test: { enabled: true, key: "\${AES}", iv: 0123456789abcdef } # from the environment
    # Nothing in live.

  # The second.
  - {id: globex,  name:   Globex}

# The end.
`;

describe('a change rewrites only the members that differ', () => {
  test('deactivating an account changes one word', () => {
    const text = file.replace('acme   # aligned', 'acme # aligned').replace('name:   "Acme', 'name: "Acme');
    const tidy = text.replace('cdef,   createdAt', 'cdef, createdAt');
    expect(diff(tidy, changed(tidy, 'acme', deactivated))).toEqual([
      '-    active: true # since May',
      '+    active: false # since May',
    ]);
  });

  test('a member that was absent is added as the last one', () => {
    expect(changed(file, 'globex', deactivated)).toBe(
      file.replace('{id: globex,  name:   Globex}', '{ id: globex, name: Globex, active: false }'),
    );
  });

  test('a new account is added after the last one, with an empty line between if others have one', () => {
    const added = `  - {id: globex,  name:   Globex}

  - id: new
    name: Account new
    active: true
    keys: []
`;
    expect(changed(file, 'new', unchanged)).toBe(file.replace('  - {id: globex,  name:   Globex}\n', added));
    const dense = 'accounts:\n- id: a\n  name: A\n- id: b\n  name: B';
    expect(changed(dense, 'c', unchanged)).toBe(`${dense}\n- id: c\n  name: Account c\n  active: true\n  keys: []\n`);
  });

  test('revoking a key adds revokedAt in the style of that key, flow or block', () => {
    const text = changed(file, 'acme', (account) => revokeKey(revokeKey(account, 'a-1', now), 'a-2', now));
    expect(text).toContain(
      '- { id: a-1, key: sk_test_0123456789abcdef, createdAt: 2026-11-01, revokedAt: 2026-11-21T10:00:00Z } # old\n',
    );
    expect(text).toContain(
      "key: 'pk_test_0123456789abcdef'\n        createdAt: 2026-11-01\n        revokedAt: 2026-11",
    );
  });

  test('references and comments are kept', () => {
    const text = changed(file, 'acme', (account) => revokeKey(account, 'a-1', now));
    expect(text).toContain('key: "${AES}", iv: 0123456789abcdef } # from the environment\n    # Nothing in live.\n');
    expect(text).not.toContain('kkkk');
    expect(commentsOf(text)).toEqual(commentsOf(file));
  });

  test('new credentials replace a reference', () => {
    const options = { encoding: undefined, grace: 1_000, replace: true };
    const text = changed(file, 'acme', (account) => enableEncryption(account, 'test', options, now, clear).account);
    expect(text).not.toContain('"${AES}"');
    expect(commentsOf(text)).toEqual(commentsOf(file));
    const off = changed(text, 'acme', (account) => disableEncryption(account, 'test', undefined, now));
    expect(off).toContain('test: { enabled: false } # from the environment');
  });

  test('other accounts and the text around them stay byte for byte', () => {
    const [head = '', ...items] = file.split('  # The second.');
    expect(changed(file, 'globex', deactivated).startsWith(head)).toBe(true);
    expect(changed(file, 'acme', deactivated).endsWith(`\n\n  # The second.${items.join('')}`)).toBe(true);
  });
});

describe('a change keeps the layout of the file', () => {
  test.each([
    ['accounts: []\n', 'accounts:\n  - id: new\n    name: Account new\n    active: true\n    keys: []\n'],
    [
      '# Ours.\naccounts: [] # none yet\n',
      '# Ours.\naccounts:\n  - id: new\n    name: Account new\n    active: true\n    keys: []\n  # none yet\n',
    ],
  ])('an empty list grows in block style: %j', (text, expected) => {
    expect(changed(text, 'new', unchanged)).toBe(expected);
  });

  test('a list in brackets grows in brackets', () => {
    expect(changed('{ "accounts": [{ "id": "a", "name": "A" }] }', 'b', unchanged)).toBe(
      '{ "accounts": [ { "id": "a", "name": "A" }, { id: b, name: Account b, active: true, keys: [] } ] }\n',
    );
  });

  test('CRLF line endings stay CRLF', () => {
    const text = changed(file.replaceAll('\n', '\r\n'), 'new', unchanged);
    expect(text.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/);
    expect(commentsOf(text.replaceAll('\r', ''))).toEqual(commentsOf(file));
  });

  test('anchors and aliases are kept', () => {
    const text = `accounts:
  - { id: a, name: &name Same }
  - { id: b, name: *name }
`;
    expect(changed(text, 'a', deactivated)).toBe(`accounts:
  - { id: a, name: &name Same, active: false }
  - { id: b, name: *name }
`);
  });

  test.each([
    ['quotes and signs', 'O\'Neill & "Sons": #1 {x} [y] *z &a !b %c @d'],
    ['what looks like something else', 'null'],
    ['a number', '0123'],
    ['a date', '2026-11-01'],
    ['spaces at both ends', '  x  '],
    ['what looks like an anchor and an alias', '&x *x'],
    ['quotes of both kinds and a backslash', `Tom's "shop" \\`],
    ['characters without a width', '\u200dTill\u200f \ue000'],
    ['other alphabets', 'Łódź 東京 ☂ 😀'],
  ])('a name with %s is written so that it reads back', (_, name) => {
    const text = changed(file, 'new', (account) => ({ ...account, name }));
    expect(read(text).at(-1)?.name).toBe(name);
  });
});

test('a change to a generated file keeps its comments and all other accounts', () => {
  fc.assert(
    fc.property(fileOf(), fc.nat(3), fc.constantFrom('off', 'key', 'revoke', 'encrypt'), (text, target, what) => {
      const accounts = read(text);
      const id = accounts[target]?.id ?? 'new';
      const result = changed(text, id, changes[what] ?? unchanged);
      expect(commentsOf(result)).toEqual(commentsOf(text));
    }),
    { numRuns: runs(100) },
  );
});

const changes: Readonly<Record<string, (account: StoredAccount) => StoredAccount>> = {
  off: deactivated,
  key: (account) => issueKey(account, { environment: 'test', kind: 'secret', expiresAt: undefined }, now).account,
  revoke: (account) => account.keys.reduce((each, { id }) => revokeKey(each, id, now), account),
  encrypt: (account) =>
    enableEncryption(account, 'test', { encoding: undefined, grace: 9, replace: true }, now, clear).account,
};

function commentsOf(text: string): string[] {
  return [...text.matchAll(/#.*$/gm)].map(([comment]) => comment.trim());
}
