import { appendFileSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { configOf, keys, operatorsOf, route } from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';
import { dashboard, startApi, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

const merchants = ['acme', 'globex'] as const;
type Merchant = (typeof merchants)[number];

const tokenOf = (account: string): string => `token-of-${account}-alone-0123456789-0123456789`;
const tokens = [...merchants, 'nobody'].map((account) => ({
  name: `${account}-reader`,
  role: 'viewer' as const,
  account,
  hash: sha256Hex(tokenOf(account)),
}));

/**
 * Starts a sidecar with two merchants that look alike in every list: each has a due key, a refused request, an event, and a grace
 * period that is running and has been used.
 */
async function start(): Promise<TestApi> {
  const { origin } = await startUpstream((_seen, res) => void res.end('{}'));
  const api = await startApi({
    environments: configOf(origin).environments,
    routes: [route('/api/s2s/*', { envelope: true })],
    operators: operatorsOf([dashboard, ...tokens]),
  });
  const account = (id: Merchant): object => ({
    id,
    name: `${id} Ltd`,
    keys: [{ id: `${id}-sk`, key: keys[id], createdAt: '2025-01-01' }],
    encryption: {
      test: { enabled: true, key: id.padEnd(32, 'x'), iv: id.padEnd(16, 'x'), previous: { until: '2099-01-01' } },
    },
  });
  api.folder.write({ 'accounts.yaml': { accounts: merchants.map(account) } });
  for (const id of merchants) {
    const post = async (body: string): Promise<number> =>
      (await send(api.sidecar, 'POST /api/s2s/charge', { key: keys[id], body })).status;
    await eventually(`the sidecar admits ${id}`, async () => (await post('{"plain":true}')) === 200);
    expect(await post('{"data":"zz"}')).toBe(400);
    expect((await api.ask(`POST /accounts/${id}/rename`, { body: { name: `The ${id} Ltd` } })).status).toBe(200);
  }
  // Nobody can tell which account this line is about.
  appendFileSync(api.folder.file('accounts.audit.jsonl'), 'not an event\n');
  return api;
}

/** The operations that list items of several accounts, and the members with the items. A new operation needs a line here or in `others`. */
const lists: Readonly<Record<string, readonly string[]>> = {
  list_accounts: ['accounts'],
  list_due: ['due'],
  list_graces: ['graces'],
  list_events: ['events'],
  show_activity: ['refusals', 'grace_uses'],
};
/** Operations that show one account, or that refuse tokens of one account (permission.test.ts). */
const others = [
  'show_session',
  'show_account',
  'list_keys',
  'find_key',
  'show_key',
  'show_traffic',
  'show_encryption',
  'show_overview',
  'show_configuration',
  'show_failures',
];

const paths = (
  JSON.parse(readFileSync('docs/operators.openapi.json', 'utf8')) as {
    readonly paths: Readonly<Record<string, { readonly get?: { readonly operationId: string } }>>;
  }
).paths;
const reads = Object.entries(paths).flatMap(([path, { get }]) =>
  get === undefined ? [] : [[get.operationId, path.replace('/api/v1', '')] as const],
);

test('a token of one account sees only its own part of every list and count', async () => {
  const { ask } = await start();
  expect(reads.map(([name]) => name).toSorted()).toEqual([...Object.keys(lists), ...others].toSorted());
  const about = (items: unknown, account: string): number =>
    (items as readonly unknown[]).filter((item) => JSON.stringify(item).includes(account)).length;
  for (const [name, path] of reads.filter(([name]) => lists[name] !== undefined)) {
    const whole = (await ask(`GET ${path}`)).body;
    const members = Object.keys(whole).filter((member) => Array.isArray(whole[member]) && member !== 'unreadable');
    expect([name, members]).toEqual([name, lists[name]]);
    if (name === 'list_events') expect(whole['unreadable']).toHaveLength(1);
    for (const { account } of tokens) {
      const part = (await ask(`GET ${path}`, { token: tokenOf(account) })).body;
      for (const member of members) {
        const [all, own] = [whole[member], part[member]];
        // A token of all accounts sees the items that the token of one account must not see.
        for (const merchant of merchants) expect([name, member, about(all, merchant)]).toEqual([name, member, 1]);
        const expected = merchants.map((merchant) => [merchant, merchant === account ? 1 : 0]);
        expect([name, member, merchants.map((merchant) => [merchant, about(own, merchant)])]).toEqual([
          name,
          member,
          expected,
        ]);
      }
      expect(part).toMatchObject({
        ...('next' in part && { next: null }),
        ...('unreadable' in part && { unreadable: [] }),
      });
    }
  }
});
