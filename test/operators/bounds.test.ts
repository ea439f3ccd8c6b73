import { describe, expect, test } from 'vitest';
import { accountName, newName } from '../../src/accounts/value-types.ts';
import { parseAs } from '../../src/input/value-types.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { ask, dashboard, expectProblem, startApi, token, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const accountToken = 'token-of-acme-alone-0123456789-0123456789';
const own = { ...dashboard, name: 'acme', account: 'acme', hash: sha256Hex(accountToken) };

function keysOf(account: string, count: number): object[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `${account}-${i}`,
    prefix: 'sk_test_',
    sha256: sha256Hex(`${account} ${i}`),
    createdAt: '2025-01-01',
  }));
}

async function start(accounts: readonly object[]): Promise<TestApi> {
  const api = await startApi({ operators: operatorsOf([dashboard, own]) });
  api.folder.write({ 'accounts.yaml': { accounts } });
  return api;
}

interface KeysPage {
  readonly keys: readonly { readonly id: string }[];
  readonly next: string | null;
}

describe('a name or a search', () => {
  const wrong = [
    ['a lone surrogate', 'a\uD800b'],
    ['NUL', 'a\0b'],
    ['a line break', 'a\nb'],
    ['a line separator', 'a\u2028b'],
    ['a paragraph separator', 'a\u2029b'],
    ['a direction override', 'a\u202Eb'],
    ['a direction isolate', 'a\u2066b'],
    ['201 characters', 'a'.repeat(201)],
    ['a reference to a variable that is set', '${PATH}'],
    ['a reference to a variable that is not set', '${NOT_SET_AT_ALL}'],
  ] as const;

  test.each(wrong)('with %s is refused, whatever the token', async (_name, text) => {
    const { ask: asked, file } = await start([{ id: 'acme', name: 'Acme' }]);
    const before = file();
    const inQuery = `search=${text.toWellFormed() === text ? encodeURIComponent(text) : 'a%ED%A0%80b'}`;
    for (const sent of [token, accountToken]) {
      const search = await asked(`GET /accounts?${inQuery}`, { token: sent });
      // A query cannot contain a surrogate, because its bytes are decoded to other characters.
      if (text.isWellFormed()) expectProblem(search, 400, 'invalid_request');
      else expect(search.status).toBeOneOf([200, 400]);
    }
    const body = JSON.stringify({ name: text });
    expectProblem(await asked('POST /accounts/acme/rename', { body }), 400, 'invalid_request');
    expectProblem(await asked('POST /accounts', { body: `{"id":"b",${body.slice(1)}` }), 400, 'invalid_request');
    expect(file()).toBe(before);
  });

  test('does not reveal whether a variable is set', async () => {
    const { ask: asked } = await start([{ id: 'acme', name: 'Acme' }]);
    const problems = async (name: string): Promise<unknown> =>
      (await asked('POST /accounts/acme/rename', { body: { name } })).body['errors'];
    expect(await problems('${PATH}')).toEqual(await problems('${NOT_SET_AT_ALL}'));
  });

  test.each(['Ünïcödé', '日本', 'متجر', 'חנות', '🏪', '$5 & more', '$PATH', 'a ${b} c', 'x'.repeat(200)])(
    '%j is accepted',
    (name) => {
      for (const type of [accountName, newName]) expect(parseAs(type, name)).toBe(name);
    },
  );

  // A reader cannot tell such a name from another one, and some of the characters make the YAML parser slow.
  test.each([
    ['a direction mark', 'חנות\u200F'],
    ['an Arabic direction mark', 'x\u061C'],
    ['a zero-width space', 'Ti\u200Bll'],
    ['a joiner', '\u200DTill'],
    ['a word joiner', 'Till\u2060'],
    ['a soft hyphen', 'Ti\u00ADll'],
    ['a byte order mark', '\uFEFFTill'],
    ['a private-use character', '\uE000'],
    ['an unassigned character', '\u0378'],
  ])(
    'with %s is refused if it is new, but can be searched for and is read from a file that has it',
    async (_name, text) => {
      const { ask: asked, file } = await start([
        { id: 'acme', name: text, keys: [{ ...keysOf('acme', 1)[0], name: text }] },
      ]);
      const before = file();
      const found = await asked(`GET /accounts?search=${encodeURIComponent(text)}`);
      expect(found.body).toMatchObject({ accounts: [{ id: 'acme', name: text, keys: [{ name: text }] }] });
      for (const [line, more] of [
        ['POST /accounts', { id: 'b' }],
        ['POST /accounts/acme/rename', {}],
        ['POST /accounts/acme/keys', { environment: 'test', kind: 'secret' }],
      ] as const) {
        expectProblem(await asked(line, { body: { ...more, name: text } }), 400, 'invalid_request');
      }
      expect(file()).toBe(before);
    },
  );
});

describe('a page', () => {
  test('of keys has the requested number of keys, and the pages together have each key once', async () => {
    const { ask: asked } = await start([{ id: 'acme', name: 'Acme', keys: keysOf('acme', 5) }]);
    const page = async (query: string): Promise<KeysPage> =>
      (await asked(`GET /accounts/acme/keys?${query}`, { token: accountToken })).body as unknown as KeysPage;
    const ids = ({ keys }: KeysPage): string[] => keys.map(({ id }) => id);
    const [first, second] = [await page('limit=2'), await page('limit=3&after=acme-1')];
    expect([ids(first), first.next]).toEqual([['acme-0', 'acme-1'], 'acme-1']);
    expect([ids(second), second.next]).toEqual([['acme-2', 'acme-3', 'acme-4'], null]);
    expect(await page('after=acme-4')).toEqual({ keys: [], next: null });
    expectProblem(await asked('GET /accounts/acme/keys?after=none'), 404, 'key_unknown');
    expectProblem(await asked('GET /accounts/acme/keys?limit=1001'), 400, 'invalid_request');
  });

  test('has a bounded number of bytes, and no account is missing from the pages', async () => {
    const accounts = Array.from({ length: 12 }, (_, i) => ({
      id: `a${i + 10}`,
      name: 'A',
      keys: keysOf(`a${i}`, 1_100),
    }));
    const { url } = await start(accounts);
    for (const list of ['accounts', 'due']) {
      const found = new Set<string>();
      let after = '';
      for (let next: unknown = ''; next !== null; after = `&after=${String(next)}`) {
        const { body } = await ask(url, `GET /${list}?limit=1000${after}`);
        // A page has at most one mebibyte, plus what its last account adds.
        expect(JSON.stringify(body).length).toBeLessThan(1.5 * 2 ** 20);
        const items = (body['accounts'] ?? body['due']) as readonly { id: string; account?: string }[];
        for (const { id, account = id } of items) found.add(account);
        next = body['next'];
      }
      expect([...found]).toEqual(accounts.map(({ id }) => id));
    }
    const { keys } = (await ask(url, 'GET /accounts/a10')).body as { keys: { id: string }[] };
    expect([keys.length, keys[0]?.id, keys.at(-1)?.id]).toEqual([1_000, 'a0-100', 'a0-1099']);
  });
});
