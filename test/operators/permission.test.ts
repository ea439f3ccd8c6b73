import { describe, expect, test } from 'vitest';
import { hashOf } from '../../src/accounts/api-key.ts';
import type { OperatorRole, OperatorsToken } from '../../src/config/config.ts';
import { endpoints } from '../../src/operators/endpoints.ts';
import { operatorsOf } from '../support/sidecar.ts';
import { expectProblem, startApi, type TestApi } from './api.ts';

const tokenOf = (name: string): string => `${name}-token-of-a-test-0123456789-0123456789`;

function operator(name: string, role: OperatorRole, account?: string): OperatorsToken {
  return { name, role, account, hash: hashOf(tokenOf(name)) };
}

const tokens = [
  operator('ada', 'admin'),
  operator('otto', 'operator'),
  operator('vera', 'viewer'),
  operator('acme-shop', 'operator', 'acme'),
  operator('acme-reader', 'viewer', 'acme'),
  operator('nobody', 'admin', 'not-there'),
];

/** With the accounts acme and globex, each with a key `sk`. */
async function withAccounts(): Promise<TestApi> {
  const api = await startApi({
    operators: operatorsOf(tokens),
  });
  const account = (id: string, digit: string): object => ({
    id,
    name: id,
    keys: [{ id: `${id}-sk`, prefix: 'sk_test_', sha256: digit.repeat(64), createdAt: '2026-11-01' }],
    encryption: {
      test: { enabled: true, key: digit.repeat(32), iv: digit.repeat(16), previous: { until: '2099-01-01' } },
    },
  });
  api.folder.write({ 'accounts.yaml': { accounts: [account('acme', 'a'), account('globex', 'b')] } });
  return api;
}

/** A request that this endpoint takes, about an account. */
function lineOf(path: string, method: string, account: string): string {
  return `${method} ${path}`
    .replace('{account}', account)
    .replace('{key}', `${account}-sk`)
    .replace('{environment}', 'test')
    .replace('/find', `/find?sha256=${'a'.repeat(64)}`);
}

const bodies: Readonly<Record<string, object>> = {
  issue_key: { environment: 'test', kind: 'secret' },
  add_account: { id: 'new', name: 'New' },
  enable_encryption: { replace: true },
  diagnose_envelope: { key: 'a'.repeat(32), iv: 'a'.repeat(16), data: '00' },
  rename_account: { name: 'Other' },
  change_grace: { until: new Date(Date.now() + 3_600_000).toISOString() },
};

const changing = endpoints.filter(({ role }) => role !== 'viewer');
const reading = endpoints.filter(({ role }) => role === 'viewer');

describe('a viewer', () => {
  test.each(reading)('may $operation, sees no secret, and changes nothing', async ({ path, method, operation }) => {
    const { ask, file } = await withAccounts();
    const before = file();
    const response = await ask(lineOf(path, method, 'acme'), { token: tokenOf('vera'), body: bodies[operation] });
    expect(file()).toBe(before);
    expect(response.status).toBe(200);
    expect(JSON.stringify(response.body)).not.toMatch(/a{16}/);
  });

  test.each(changing)('may not $operation', async ({ path, method, operation }) => {
    const { ask, file } = await withAccounts();
    const before = file();
    const response = await ask(lineOf(path, method, 'acme'), { token: tokenOf('vera'), body: bodies[operation] });
    expectProblem(response, 403, 'forbidden');
    expect(file()).toBe(before);
  });

  test('learns that it may not before anything else of its request is looked at', async () => {
    const { ask } = await withAccounts();
    const token = tokenOf('vera');
    expectProblem(await ask('POST /accounts', { token, body: '{' }), 403, 'forbidden');
    expectProblem(await ask('POST /accounts/none/activate', { token }), 403, 'forbidden');
  });
});

describe('an operator and an admin', () => {
  test.each(changing.filter(({ role }) => role === 'operator'))(
    'may $operation',
    async ({ path, method, operation }) => {
      for (const name of ['otto', 'ada']) {
        const { ask } = await withAccounts();
        const response = await ask(lineOf(path, method, 'acme'), { token: tokenOf(name), body: bodies[operation] });
        expect(response.status).toBeLessThan(300);
      }
    },
  );
});

describe('a token of one account', () => {
  test.each(endpoints.filter(({ path }) => path.includes('{account}')))(
    'may $operation there, and nowhere else',
    async ({ path, method, operation }) => {
      const { ask, file } = await withAccounts();
      const before = file();
      const asked = { token: tokenOf('acme-shop'), body: bodies[operation] };
      const other = await ask(lineOf(path, method, 'globex'), asked);
      const none = await ask(lineOf(path, method, 'none'), asked);
      expectProblem(other, 403, 'forbidden');
      // The response does not tell whether there is such an account.
      expect({ ...none.body, request_id: '' }).toEqual({ ...other.body, request_id: '' });
      expect(file()).toBe(before);
      expect((await ask(lineOf(path, method, 'acme'), asked)).status).toBeLessThan(300);
    },
  );

  test.each(endpoints.filter(({ path, accountToken }) => !path.includes('{account}') && accountToken === undefined))(
    'may not $operation, even if the query names its account',
    async ({ path, method, operation }) => {
      const { ask, file } = await withAccounts();
      const before = file();
      const asked = { token: tokenOf('acme-shop'), body: bodies[operation] };
      for (const query of ['', '?account=acme', '?account=acme&account=acme']) {
        expectProblem(await ask(`${lineOf(path, method, 'acme')}${query}`, asked), 403, 'forbidden');
      }
      expect(file()).toBe(before);
    },
  );

  test('lists its own account alone', async () => {
    const { ask } = await withAccounts();
    const ids = async (query: string, name = 'acme-shop'): Promise<unknown> =>
      ((await ask(`GET /accounts${query}`, { token: tokenOf(name) })).body['accounts'] as { id: string }[]).map(
        ({ id }) => id,
      );
    expect(await ids('')).toEqual(['acme']);
    expect(await ids('?after=abc')).toEqual(['acme']);
    expect(await ids('?after=acme')).toEqual([]);
    expect(await ids('', 'nobody')).toEqual([]);
    expect(await ids('', 'vera')).toEqual(['acme', 'globex']);
  });

  test('has its role there too', async () => {
    const { ask } = await withAccounts();
    const token = tokenOf('acme-reader');
    expect((await ask('GET /accounts/acme', { token })).status).toBe(200);
    expectProblem(await ask('POST /accounts/acme/keys', { token, body: bodies['issue_key'] }), 403, 'forbidden');
  });

  test('is not let in by another spelling of its account', async () => {
    const { ask } = await withAccounts();
    for (const id of ['ACME', 'acme%20', 'acme%00', '%2e/globex', 'globex%2facme']) {
      const { status } = await ask(`GET /accounts/${id}`, { token: tokenOf('acme-shop') });
      expect([403, 404]).toContain(status);
    }
  });
});

test.each(tokens)('the session tells $name, role and account of the token in use', async ({ name, role, account }) => {
  const { ask } = await withAccounts();
  expect((await ask('GET /session', { token: tokenOf(name) })).body).toEqual({ name, role, account: account ?? null });
});

test('a role that a new configuration takes away is gone with the next request', async () => {
  const { ask, sidecar, config } = await withAccounts();
  const body = { id: 'new', name: 'New' };
  sidecar.app.apply({ ...config, operators: operatorsOf([operator('otto', 'viewer')]) });
  expectProblem(await ask('POST /accounts', { token: tokenOf('otto'), body }), 403, 'forbidden');
});
