import { describe, expect, test } from 'vitest';
import { csvAccounts, ndjsonAccounts, type AccountLine } from '../../../src/accounts/transfer/account-lines.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const vault = new Vault([]);
const key = 'sk_test_0123456789abcdef';
const aes = 'k'.repeat(32);
const iv = 'i'.repeat(16);
const createdAt = '2026-11-01';

async function* linesOf(text: string): AsyncIterable<string> {
  yield* text.split('\n');
}

async function collected(lines: AsyncIterable<AccountLine>): Promise<AccountLine[]> {
  const all: AccountLine[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

async function ndjson(...lines: readonly unknown[]): Promise<AccountLine[]> {
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');
  return collected(ndjsonAccounts(linesOf(text), vault));
}

async function csv(text: string): Promise<AccountLine[]> {
  return collected(csvAccounts(linesOf(text), vault));
}

describe('NDJSON', () => {
  test('has one account per line, with the members of the accounts file', async () => {
    const acme = {
      id: 'acme',
      name: 'Acme',
      keys: [{ id: 'a', key, createdAt }],
      encryption: { live: { enabled: true, key: aes, iv } },
    };
    const [first, second, ...others] = await ndjson(acme, '', { id: 'globex', name: 'Globex', active: false });
    expect(first).toMatchObject({
      line: 1,
      problems: [],
      account: {
        id: 'acme',
        active: true,
        keys: [{ id: 'a', prefix: 'sk_test_', hash: sha256Hex(key), createdAt: Date.parse(createdAt) }],
        encryption: { live: { enabled: true, credentials: { key: aes, iv, format: 'text' } } },
      },
    });
    expect(second).toMatchObject({ line: 3, account: { id: 'globex', active: false } });
    expect(others).toEqual([]);
  });

  test('reports every problem of a line, and reads on', async () => {
    const lines = await ndjson(
      '{',
      { id: 'a b', nam: 'A', keys: [{ id: 'k', sha256: 'x', createdAt: 1 }] },
      [],
      { id: 'c', name: 'C', encryption: { test: { enabled: true, key: 'short', iv } } },
      { id: 'd', name: 'D' },
      '{"id":"e","name":"E","active":false,"active":true}',
    );
    expect(lines.pop()).toEqual({ line: 6, account: undefined, problems: ['.  duplicate member'] });
    expect(lines.map(({ line, problems }) => [line, problems])).toEqual([
      [1, ['.  not JSON: expected one account per line']],
      [
        2,
        [
          'id  expected 1 to 64 letters, digits, ".", "_" or "-", but not an API key',
          'name  missing: expected 1 to 200 characters without control characters',
          'keys[0].sha256  expected 64 hex digits in lower case',
          'keys[0].createdAt  expected a date such as 2026-11-01 or 2026-11-01T09:30:00Z',
          'nam  unknown member "nam": did you mean "name"?',
          'keys[0].prefix  missing: required for a key stored as "sha256"',
        ],
      ],
      [3, ['.  expected members ("name: value")']],
      [4, ['encryption.test.key  must be 32 bytes of UTF-8']],
      [5, []],
    ]);
  });

  test('does not resolve references', async () => {
    const keys = (written: unknown): object => ({ id: 'a', name: 'A', keys: [{ id: 'k', key: written, createdAt }] });
    expect((await ndjson(keys({ file: '/etc/passwd' }), keys('${HOME}'))).map(({ problems }) => problems)).toEqual([
      ['keys[0].key  expected the value itself, not a reference to a file'],
      ['keys[0].key  the environment variable HOME is not set'],
    ]);
  });

  test('never repeats a secret in a problem', async () => {
    const secret = 'sk_live_5ecretSecretSecret!';
    const lines = await ndjson(
      { id: secret, name: secret, keys: [{ id: secret, key: secret, sha256: secret, createdAt: secret }] },
      { [secret]: 1, encryption: { test: { enabled: secret, key: secret, iv: secret } } },
      `{"id": "${secret}"`,
    );
    expect(lines.flatMap(({ problems }) => problems).join('\n')).not.toContain('5ecret');
  });
});

describe('CSV', () => {
  test('names members by their paths in the first line', async () => {
    const [line] = await csv(
      `id,name,active,keys.0.id,keys.0.key,keys.0.createdAt,encryption.test.enabled,encryption.test.key,encryption.test.iv
acme,"Acme, Inc.",false,a,${key},${createdAt},true,${aes},${iv}`,
    );
    expect(line).toMatchObject({
      line: 2,
      account: {
        id: 'acme',
        name: 'Acme, Inc.',
        active: false,
        keys: [{ id: 'a', hash: sha256Hex(key) }],
        encryption: { test: { enabled: true, credentials: { key: aes } } },
      },
    });
  });

  test('omits a member whose cell is empty', async () => {
    const [line] = await csv(`id,name,keys.0.id,keys.0.key,keys.0.createdAt\nacme,Acme,,,`);
    expect(line?.account?.keys).toEqual([]);
  });

  test('reports the problems of a line, and reads on', async () => {
    const lines = await csv(`id,name,active\na,A,perhaps\nb,B\nc,"C\nd",true\ne,E,true\nf,F,"x"y`);
    expect(lines.map(({ line, problems }) => [line, problems])).toEqual([
      [2, ['active  expected true or false']],
      [3, ['.  expected 3 cells, as in the first line']],
      [4, ['name  expected 1 to 200 characters without control characters']],
      [6, []],
      [7, ['.  not CSV: a quote is missing, or is inside a cell without quotes']],
    ]);
  });

  test.each(['__proto__.polluted', 'keys.__proto__.polluted', 'id name', 'encryption..key', ''])(
    'does not accept %j as the path of a member',
    async (path) => {
      const lines = await csv(`id,${path},name\na,yes,A`);
      expect(lines).toEqual([
        { line: 1, account: undefined, problems: ['.  column 2: expected the path of a member'] },
      ]);
    },
  );

  test.each([
    ['name,id,name', 3, 1],
    ['id,encryption.live.key,encryption.live.key.x', 3, 2],
    ['id,encryption.live.key.x.y,keys.0.id,encryption.live.key', 4, 2],
  ])('refuses two columns for one member, and a column inside another: %s', async (header, column, other) => {
    const lines = await csv(`${header}\n${header.replaceAll(/[^,]+/g, '5ecret')}`);
    const problem = `.  column ${column}: names the same member as column ${other}, or one inside the other`;
    expect(lines).toEqual([{ line: 1, account: undefined, problems: [problem] }]);
  });

  test('distinguishes members whose names begin alike', async () => {
    const [line] = await csv(`id,name,nam,name1\na,A,,`);
    expect(line).toMatchObject({ problems: [], account: { id: 'a', name: 'A' } });
  });

  test.each(['keys.0.id,keys.length', 'keys.0.id,keys.x', 'keys.00.id', 'keys.0.id,keys.00.id', 'keys.1000.id'])(
    'accepts only indexes for the items of a list: %s',
    async (header) => {
      const [line] = await csv(`id,name,${header}\na,A,${header.replaceAll(/[^,]+/g, '5ecret')}`);
      expect(line).toEqual({ line: 2, account: undefined, problems: ['keys  expected a list'] });
    },
  );

  test('accepts the items of a list in any order', async () => {
    const [line] = await csv(
      `id,name,keys.1.id,keys.1.key,keys.1.createdAt,keys.0.id,keys.0.key,keys.0.createdAt
a,A,second,${key},${createdAt},first,${key}2,${createdAt}`,
    );
    expect(line?.account?.keys.map(({ id }) => id)).toEqual(['first', 'second']);
  });

  test('refuses a path that is deeper than any member', async () => {
    const path = Array.from({ length: 7 }, () => 'a').join('.');
    const [line] = await csv(`id,${path}\na,5ecret`);
    expect(line?.problems).toEqual(['.  column 2: expected the path of a member']);
  });

  test.each(['constructor.polluted', 'keys.constructor.polluted', 'keys.0.toString'])(
    'reports %s as an unknown member',
    async (path) => {
      const [line] = await csv(`id,name,${path}\na,A,yes`);
      expect(line?.account).toBeUndefined();
      expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
      expect((Array as unknown as Record<string, unknown>)['polluted']).toBeUndefined();
    },
  );
});
