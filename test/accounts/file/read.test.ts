import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readAccounts } from '../../../src/accounts/file/read.ts';
import type { Account } from '../../../src/accounts/account.ts';
import type { PackedCodec } from '../../../src/envelope/codec.ts';
import { unwrapAccount } from '../../../src/accounts/unwrap-account.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Files } from '../../../src/yaml/files.ts';
import type { Env } from '../../../src/yaml/values.ts';
import { YamlFile } from '../../../src/yaml/yaml-file.ts';
import { filesIn } from '../../config/files.ts';
import { enabledOf } from '../../support/sidecar.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const aes = '0123456789abcdefghijklmnopqrstuv';
const otherAes = 'vutsrqponmlkjihgfedcba9876543210';
const iv = 'ABCDEFGHIJKLMNOP';

/** Reads the accounts of a file, and the paths of its invalid members. */
function read(text: string, env: Env = {}): { accounts: Account[]; problems: string[] } {
  const file = new YamlFile(join(filesIn({ 'accounts.yaml': text }), 'accounts.yaml'), new Files());
  const vault = new Vault([]);
  const { accounts: stored } = readAccounts(file, env, vault);
  const problems = file.problems.map(({ path }) => path);
  return { accounts: problems.length > 0 ? [] : stored.map((each) => unwrapAccount(each, vault)), problems };
}

function problemsOf(text: string): string[] {
  return read(text).problems;
}

/** One account, `acme`, with these lines added. */
function acme(lines: string, env?: Env): Account {
  const { accounts, problems } = read(`accounts:\n  - id: acme\n    name: Acme\n${lines}`, env);
  if (accounts[0] === undefined || problems.length > 0) throw new Error(problems.join());
  return accounts[0];
}

function bytesOf({ key, iv }: PackedCodec): { key: string; iv: string } {
  return { key: key.export().toString(), iv: Buffer.from(iv).toString() };
}

test('an account defaults to active, without keys or encryption', () => {
  expect(acme('')).toEqual({ id: 'acme', name: 'Acme', active: true, keys: [], encryption: {} });
  expect(acme('    active: false\n').active).toBe(false);
});

test('a file may contain no accounts', () => {
  expect(read('accounts: []')).toEqual({ accounts: [], problems: [] });
});

describe('API keys', () => {
  const key = 'sk_live_0123456789abcdef';

  test('are kept as prefix and hash, whether written as text or as prefix and hash', () => {
    const { keys } = acme(`    keys:
      - { id: a, key: ${key}, createdAt: 2026-11-01 }
      - { id: b, prefix: pk_test_, sha256: ${sha256Hex('x')}, createdAt: 2026-11-01T01:00:00+01:00, expiresAt: 2027-01-01, revokedAt: 2026-12-01 }
`);
    const createdAt = Date.parse('2026-11-01T00:00:00Z');
    expect(keys).toEqual([
      { id: 'a', prefix: 'sk_live_', hash: sha256Hex(key), createdAt, expiresAt: undefined, revokedAt: undefined },
      {
        id: 'b',
        prefix: 'pk_test_',
        hash: sha256Hex('x'),
        createdAt,
        expiresAt: Date.parse('2027-01-01T00:00:00Z'),
        revokedAt: Date.parse('2026-12-01T00:00:00Z'),
      },
    ]);
  });

  test('count as duplicates if one is written as text and the other as its hash', () => {
    const keys = [`key: ${key}`, `prefix: sk_live_, sha256: ${sha256Hex(key)}`].map(
      (written, i) => `      - { id: k${i}, ${written}, createdAt: 2026-11-01 }\n`,
    );
    expect(problemsOf(`accounts:\n  - id: a\n    name: A\n    keys:\n${keys.join('')}`)).toEqual([
      'accounts[0].keys[1].sha256',
    ]);
  });

  test('need both a prefix and a hash of 64 hex digits', () => {
    const keys = (written: string): string[] =>
      problemsOf(`accounts: [ { id: a, name: A, keys: [ { id: k, ${written}, createdAt: 2026-11-01 } ] } ]`);
    expect(keys(`sha256: ${sha256Hex(key)}`)).toEqual(['accounts[0].keys[0].prefix']);
    expect(keys(`prefix: sk_live_, sha256: ${sha256Hex(key)}`)).toEqual([]);
    expect(keys(`prefix: sk_live_, sha256: ${sha256Hex(key)}a`)).toEqual(['accounts[0].keys[0].sha256']);
    expect(keys(`prefix: sk_live_, sha256: ${sha256Hex(key).slice(1)}`)).toEqual(['accounts[0].keys[0].sha256']);
  });

  test('have ids that are unique across all accounts', () => {
    const account = (id: string, last: string): string =>
      `  - { id: ${id}, name: A, keys: [ { id: same, key: sk_test_0123456789abcde${last}, createdAt: 2026-11-01 } ] }\n`;
    expect(problemsOf(`accounts:\n${account('a', '1')}${account('b', '2')}`)).toEqual(['accounts[1].keys[0].id']);
  });

  test.each([
    ['a'.repeat(15), ['accounts[0].keys[0].key']],
    ['a'.repeat(16), []],
    ['a'.repeat(200), []],
    ['a'.repeat(201), ['accounts[0].keys[0].key']],
    ['aaaaaaaaaaaaaaa.', ['accounts[0].keys[0].key']],
  ])('need 16 to 200 characters after the prefix: %s', (rest, problems) => {
    const key = `{ id: k, key: pk_live_${rest}, createdAt: 2026-11-01 }`;
    expect(problemsOf(`accounts: [ { id: a, name: A, keys: [ ${key} ] } ]`)).toEqual(problems);
  });
});

test('two accounts with one id are refused', () => {
  expect(problemsOf('accounts: [ { id: a, name: A }, { id: b, name: B }, { id: a, name: C } ]')).toEqual([
    'accounts[2].id',
  ]);
});

describe('the rules for ids and names', () => {
  test.each([
    ['id', 'a', []],
    ['id', 'a'.repeat(64), []],
    ['id', 'a'.repeat(65), ['accounts[0].id']],
    ['id', 'A.b_c-9', []],
    ['id', '.', ['accounts[0].id']],
    ['id', '..', ['accounts[0].id']],
    ['id', '...', []],
    ['id', '.a', []],
    ['id', 'a.', []],
    ['id', 'a b', ['accounts[0].id']],
    ['id', 'ä', ['accounts[0].id']],
    ['id', '', ['accounts[0].id']],
    ['name', 'N'.repeat(200), []],
    ['name', 'N'.repeat(201), ['accounts[0].name']],
    ['name', '🏪'.repeat(200), []],
    ['name', '', ['accounts[0].name']],
    ['name', 'Müller & Söhne “Nord”', []],
    ['name', String.raw`a\tb`, ['accounts[0].name']],
    ['name', String.raw`a\u007f`, ['accounts[0].name']],
    ['name', String.raw`a\u0085`, ['accounts[0].name']],
  ])('for the %s "%s" report the problems %j', (member, text, problems) => {
    const other = member === 'id' ? 'name: A' : 'id: a';
    expect(problemsOf(`accounts: [ { ${other}, ${member}: "${text}" } ]`)).toEqual(problems);
  });
});

describe('encryption', () => {
  const enabled = `enabled: true, key: ${aes}, iv: ${iv}`;

  test('is present if it is enabled', () => {
    const { encryption } = acme(`    encryption: { test: { ${enabled} }, live: { enabled: false } }\n`);
    expect(Object.keys(encryption)).toEqual(['test']);
    expect(encryption.test).toMatchObject({ createdAt: undefined, grace: undefined });
    expect(enabledOf(encryption.test).current.pack()).toMatchObject({ encoding: 'hex' });
    expect(bytesOf(enabledOf(encryption.test).current.pack())).toEqual({ key: aes, iv });
  });

  test('may be disabled while its credentials are still in the file', () => {
    expect(acme(`    encryption: { live: { enabled: false, key: ${aes}, iv: ${iv} } }\n`).encryption).toEqual({});
  });

  test('accepts base64 as encoding', () => {
    const [key64, iv64] = [aes, iv].map((text) => Buffer.from(text).toString('base64'));
    const written = `enabled: true, format: base64, key: "${key64}", iv: "${iv64}", encoding: base64, createdAt: 2026-11-01`;
    const { encryption } = acme(`    encryption: { live: { ${written} } }\n`);
    expect(encryption.live).toMatchObject({ createdAt: Date.parse('2026-11-01T00:00:00Z') });
    expect(enabledOf(encryption.live).current.pack()).toMatchObject({ encoding: 'base64' });
    expect(bytesOf(enabledOf(encryption.live).current.pack())).toEqual({ key: aes, iv });
  });

  test('accepts references, and truncates a longer IV', () => {
    const lines = '    encryption: { test: { enabled: true, key: "${KEY}", iv: "${IV}" } }\n';
    const { encryption } = acme(lines, { KEY: aes, IV: `${iv}QRSTUVWX` });
    expect(bytesOf(enabledOf(encryption.test).current.pack())).toEqual({ key: aes, iv });
  });

  test('with a grace accepts the previous credentials', () => {
    const previous = `previous: { key: ${otherAes}, iv: ${iv}, until: 2026-12-01T00:00:00Z }`;
    const { grace } = enabledOf(acme(`    encryption: { test: { ${enabled}, ${previous} } }\n`).encryption.test);
    expect(grace?.until).toBe(Date.parse('2026-12-01T00:00:00Z'));
    expect(grace?.previous && bytesOf(grace.previous.pack())).toEqual({ key: otherAes, iv });
  });

  test('with a grace accepts plaintext if there are no previous credentials', () => {
    const { encryption } = acme(`    encryption: { test: { ${enabled}, previous: { until: 2020-01-01 } } }\n`);
    expect(enabledOf(encryption.test).grace).toEqual({
      previous: undefined,
      until: Date.parse('2020-01-01T00:00:00Z'),
    });
  });

  test.each([
    ['enabled: true', ['key', 'iv']],
    [`enabled: true, key: ${aes}`, ['iv']],
    [`enabled: false, iv: ${iv}`, ['key']],
    [`key: ${aes}, iv: ${iv}`, ['enabled']],
    [`enabled: true, key: ${aes.slice(1)}, iv: ${iv.slice(1)}`, ['key', 'iv']],
    [`${enabled}, previous: { key: ${otherAes}, until: 2026-11-01 }`, ['previous.iv']],
    [`${enabled}, previous: { iv: ${iv}, until: 2026-11-01 }`, ['previous.key']],
    [`${enabled}, previous: { key: x, iv: ${iv}, until: 2026-11-01 }`, ['previous.key']],
    [`${enabled}, previous: { key: ${otherAes}, iv: ${iv} }`, ['previous.until']],
  ])('is incomplete: %s', (written, members) => {
    expect(problemsOf(`accounts: [ { id: a, name: A, encryption: { test: { ${written} } } } ]`)).toEqual(
      members.map((member) => `accounts[0].encryption.test.${member}`),
    );
  });

  test('must have different keys in test and live, whatever the IVs are', () => {
    const live = (key: string): string => `enabled: true, key: ${key}, iv: PONMLKJIHGFEDCBA`;
    const both = (key: string, more = ''): string[] =>
      problemsOf(
        `accounts: [ { id: a, name: A, encryption: { test: { ${enabled}${more} }, live: { ${live(key)} } } } ]`,
      );
    expect(both(otherAes)).toEqual([]);
    expect(both(aes)).toEqual(['accounts[0].encryption.live.key']);
    expect(both(otherAes, `, previous: { key: ${otherAes}, iv: ${iv}, until: 2020-01-01 }`)).toEqual([
      'accounts[0].encryption.live.key',
    ]);
  });
});
