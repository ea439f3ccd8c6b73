import { expect, test } from 'vitest';
import type { DueView } from '../../src/accounts/due.ts';
import { acme, keys as merchantsKeys, operatorsOf, route } from '../support/sidecar.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { dashboard, expectProblem, startApi, storeAt, type TestApi } from './api.ts';
import { sha256Hex } from '../../src/cryptography.ts';

/** An item of the API that has a `use`. */
interface Used {
  readonly id: string;
  readonly use: { readonly days: readonly number[] | null };
}

const now = Date.parse('2026-11-21T10:00:00Z');

/** Starts a sidecar with the accounts acme, due.co and globex. */
async function withAccounts(): Promise<TestApi> {
  const own = 'own-token-of-a-test-0123456789-0123456789';
  const tokens = [dashboard, { ...dashboard, name: 'acme', account: 'acme', hash: sha256Hex(own) }];
  const api = await startApi({ operators: operatorsOf(tokens) }, () => now);
  const key = (id: string, hash: string, more: object): object => ({
    id,
    prefix: 'sk_test_',
    sha256: hash.repeat(64),
    createdAt: '2026-11-01',
    ...more,
  });
  api.folder.write({
    'accounts.yaml': {
      accounts: [
        { id: 'acme', name: 'Acme Stores', keys: [key('a1', 'a', { expiresAt: '2026-12-01' }), key('a2', 'b', {})] },
        { id: 'due.co', name: 'Due', keys: [key('d1', 'd', { createdAt: '2026-05-01', expiresAt: '2026-12-01' })] },
        { id: 'globex', name: 'Globex', active: false, keys: [key('g1', 'e', { createdAt: '2026-05-01' })] },
      ],
    },
  });
  return api;
}

const own = { token: 'own-token-of-a-test-0123456789-0123456789' };

test('accounts are searched and filtered, page by page', async () => {
  const { ask } = await withAccounts();
  const ids = async (query: string, asked = {}): Promise<unknown> => {
    const { accounts, next } = (await ask(`GET /accounts?${query}`, asked)).body as {
      accounts: { id: string }[];
      next: unknown;
    };
    return [...accounts.map(({ id }) => id), next];
  };
  expect(await ids('search=STORES')).toEqual(['acme', null]);
  expect(await ids('filter=inactive')).toEqual(['globex', null]);
  expect(await ids('filter=due&limit=1')).toEqual(['due.co', 'due.co']);
  expect(await ids('filter=due&limit=1&after=due.co')).toEqual(['globex', null]);
  expect(await ids('filter=due&search=glo')).toEqual(['globex', null]);
  expect(await ids('filter=due', own)).toEqual([null]);
  expect(await ids('filter=expiring', own)).toEqual(['acme', null]);
  for (const query of ['filter=other', 'search=', `search=${'x'.repeat(201)}`]) {
    expectProblem(await ask(`GET /accounts?${query}`), 400, 'invalid_request');
  }
});

test('what is due is listed with the most urgent first, page by page and filtered, only for the account of the token', async () => {
  const { ask } = await withAccounts();
  const due = async (query: string, asked = {}): Promise<readonly [readonly string[], string | null]> => {
    const body = (await ask(`GET /due?${query}`, asked)).body as { due: DueView[]; next: string | null };
    return [body.due.map(({ account, kind, id, warnings }) => [account, kind, id, ...warnings].join(' ')), body.next];
  };
  const all = ['acme secret a1 expiring', 'due.co secret d1 due expiring', 'globex secret g1 due'];
  expect(await due('')).toEqual([all, null]);
  expect(await due('environment=test&kind=secret')).toEqual([all, null]);
  expect(await due('environment=live')).toEqual([[], null]);
  expect(await due('kind=credentials')).toEqual([[], null]);
  const [first, next] = await due('limit=2');
  expect(first).toEqual(all.slice(0, 2));
  expect(await due(`limit=2&after=${next}`)).toEqual([all.slice(2), null]);
  expect(await due('', own)).toEqual([all.slice(0, 1), null]);
  for (const query of ['kind=other', 'environment=other', 'after=x', `after=${btoa('[1]')}`]) {
    expectProblem(await ask(`GET /due?${query}`), 400, 'invalid_request');
  }
});

test('a key is found by its hash, and only in the account of the token', async () => {
  const { ask } = await withAccounts();
  const find = (hash: string, asked = {}) => ask(`GET /keys/find?sha256=${hash.repeat(64)}`, asked);
  expect((await find('d')).body).toMatchObject({ account: 'due.co', id: 'd1', warnings: ['due', 'expiring'] });
  expect((await find('a', own)).body).toMatchObject({ account: 'acme', id: 'a1' });
  expectProblem(await find('d', own), 404, 'key_unknown');
  expectProblem(await find('0'), 404, 'key_unknown');
  expectProblem(await ask(`GET /keys/find?sha256=${'A'.repeat(64)}`), 400, 'invalid_request');
});

test('a key is shown with its use at this sidecar, who revoked it, and how often it was tried since', async () => {
  const { ask, sidecar } = await startApi({ accounts: [acme] });
  const [{ id } = { id: '' }] = acme.keys;
  await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
  expectProblem(await ask(`GET /accounts/acme/keys/${id}`), 404, 'key_unknown');
  const issued = (await ask('POST /accounts/acme/keys', { body: { environment: 'test', kind: 'secret' } })).body;
  const charge = async () =>
    (await fetch(`${sidecar.url}/api/v1/x`, { headers: { authorization: `Bearer ${String(issued['key'])}` } })).status;
  await expect.poll(charge).not.toBe(401);
  const shown = async () => (await ask(`GET /accounts/acme/keys/${String(issued['id'])}`)).body;
  expect(await shown()).toMatchObject({
    state: 'valid',
    revoked_by: null,
    use: { attempts: 0, last_attempt_at: null },
  });
  const { use } = (await shown()) as { use: { hours: number[]; last_hour: number; last_at: string; days: null } };
  expect([use.hours.at(-1), use.last_hour, typeof use.last_at, use.days]).toEqual([1, 1, 'string', null]);
  expect((await ask('GET /accounts')).body['accounts']).toMatchObject([{ id: 'acme', use: { last_hour: 1 } }]);
  expect((await ask('GET /accounts/acme')).body['keys']).toMatchObject([{ use: { last_hour: 1 } }]);
  await ask(`POST /accounts/acme/keys/${String(issued['id'])}/revoke`);
  expect(await charge()).toBe(401);
  expect(await shown()).toMatchObject({
    state: 'revoked',
    revoked_by: 'token:dashboard',
    use: { last_hour: 1, attempts: 1, last_attempt_at: expect.any(String) },
  });
});

describeWithPostgres('with accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  test('`use` has the requests of 30 days at all sidecars, and everything else works if they cannot be read', async () => {
    const url = await postgres.createDatabase();
    const api = await startApi({ store: storeAt(url) });
    const { ask } = api;
    await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    for (const kind of ['secret', 'public']) {
      await ask('POST /accounts/acme/keys', { body: { environment: 'test', kind } });
    }
    const hour = `date_trunc('hour', now())`;
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.key_hours SELECT key_id, ${hour} - days * interval '1 day', 7
        FROM envelope_sidecar.api_keys, generate_series(0, 1) AS days`,
    );
    const uses = async ({ ask }: TestApi): Promise<unknown[]> => {
      const [listed] = (await ask('GET /accounts')).body['accounts'] as Used[];
      const [key] = (await ask('GET /accounts/acme')).body['keys'] as Used[];
      const shown = (await ask(`GET /accounts/acme/keys/${key?.id}`)).body as unknown as Used;
      return [listed, key, shown].map((each) => each?.use.days?.slice(-3) ?? null);
    };
    expect(await uses(api)).toEqual([
      [0, 14, 14],
      [0, 7, 7],
      [0, 7, 7],
    ]);
    await postgres.psql(url, 'DROP TABLE envelope_sidecar.key_hours');
    // Ask another sidecar, which has not read the counts yet.
    expect(await uses(await startApi({ store: storeAt(url) }))).toEqual([null, null, null]);
  });
});

test('an account is renamed', async () => {
  const { ask, file, sidecar } = await withAccounts();
  const rename = (name: string) => ask('POST /accounts/acme/rename', { body: { name } });
  expect(await rename('Acme Ltd')).toMatchObject({ status: 200, body: { id: 'acme', name: 'Acme Ltd' } });
  expect(file()).toContain('Acme Ltd');
  await rename('Acme Ltd');
  const audit = sidecar.log.filter(({ msg }) => msg === 'audit');
  expect(audit).toMatchObject([{ action: 'account_renamed', account: 'acme', name: 'Acme Ltd' }]);
  expectProblem(await rename('a\nb'), 400, 'invalid_request');
});

test('a running grace is listed, moved and ended', async () => {
  const { ask, file } = await withAccounts();
  const path = '/accounts/acme/encryption/test';
  expectProblem(await ask(`POST ${path}/grace`, { body: { until: '2026-12-01' } }), 409, 'grace_not_running');
  await ask(`POST ${path}/enable`, { body: { grace: '24h' } });
  const graces = async (): Promise<unknown> => (await ask('GET /graces')).body['graces'];
  expect(await graces()).toMatchObject([
    { account: 'acme', environment: 'test', previous: { accepts: 'plaintext', until: '2026-11-22T10:00:00Z' } },
  ]);
  const move = (until: string) => ask(`POST ${path}/grace`, { body: { until } });
  expect((await move('2026-12-01T00:00:00Z')).body).toMatchObject({ previous: { until: '2026-12-01T00:00:00Z' } });
  expect((await move('2027-11-21T10:00:00Z')).status).toBe(200);
  for (const until of ['2026-11-21T10:00:00Z', '2027-11-21T10:00:01Z']) {
    expectProblem(await move(until), 409, 'until_not_allowed');
  }
  expect((await ask(`POST ${path}/grace/end`)).body).toMatchObject({ enabled: true, previous: null });
  expect(file()).not.toContain('previous');
  expect(await graces()).toEqual([]);
  expectProblem(await ask(`POST ${path}/grace/end`), 409, 'grace_not_running');
});

test('recent refusals are listed, only for the account of the token', async () => {
  const other = { ...acme, id: 'globex', keys: acme.keys.slice(0, 0), encryption: {} };
  const tokens = [dashboard, { ...dashboard, name: 'globex', account: 'globex', hash: sha256Hex(own.token) }];
  const { ask, sidecar } = await startApi({
    accounts: [acme, other],
    operators: operatorsOf(tokens),
    routes: [route('/api/s2s/*', { envelope: true })],
  });
  const sent = await fetch(`${sidecar.url}/api/s2s/charge`, {
    method: 'POST',
    headers: { authorization: `Bearer ${merchantsKeys.acme}`, 'x-request-id': 'mine' },
    body: '{"data":"zz"}',
  });
  expect(sent.status).toBe(400);
  const refusal = {
    request_id: 'mine',
    account: 'acme',
    environment: 'test',
    key: acme.keys[0]?.id,
    route: '/api/s2s/*',
    code: 'decryption_failed',
  };
  await expect.poll(async () => (await ask('GET /activity')).body['refusals']).toMatchObject([refusal]);
  expect((await ask('GET /activity?account=acme')).body['refusals']).toHaveLength(1);
  expect((await ask('GET /activity?account=globex')).body['refusals']).toEqual([]);
  expect((await ask('GET /activity', own)).body['refusals']).toEqual([]);
  expectProblem(await ask('GET /activity?account=acme', own), 403, 'forbidden');
  const failing = { account: 'acme', environment: 'test', requests: 1, refusals: 1, opened: 0, unopened: 1, unread: 0 };
  expect((await ask('GET /failures')).body['failures']).toEqual([{ ...failing, code: 'decryption_failed' }]);
  expect((await ask('GET /failures?code=decryption_failed&environment=test')).body['failures']).toHaveLength(1);
  expect((await ask('GET /failures?code=overloaded')).body['failures']).toEqual([]);
  expect((await ask('GET /failures?environment=live')).body['failures']).toEqual([]);
  expectProblem(await ask('GET /failures', own), 403, 'forbidden');
});

test('the audit trail is listed page by page, only for the account of the token', async () => {
  const { ask } = await withAccounts();
  for (const name of ['1', '2', '3']) await ask('POST /accounts/acme/rename', { body: { name } });
  await ask('POST /accounts/globex/activate');
  const page = async (query: string, asked = {}): Promise<[string[], string | null]> => {
    const { events, next } = (await ask(`GET /audit?${query}`, asked)).body as {
      events: { account: string; details: { name?: string } }[];
      next: string | null;
    };
    return [events.map(({ account, details }) => details.name ?? account), next];
  };
  // All events have the same time.
  const [first, next] = await page('limit=2');
  expect(first).toEqual(['globex', '3']);
  expect(await page(`limit=2&before=${next}`)).toEqual([['2', '1'], null]);
  const [oldest, behind] = await page('limit=3&after=0');
  expect(oldest).toEqual(['1', '2', '3']);
  expect(await page(`limit=3&after=${behind}`)).toEqual([['globex'], null]);
  expect(await page(`after=1&before=${Number(behind) + 1}`)).toEqual([['2', '3'], null]);
  expect(await page('account=globex')).toEqual([['globex'], null]);
  expect(await page('since=2026-11-21T10:00:01Z')).toEqual([[], null]);
  expect(await page('until=2026-11-21T10:00:00Z')).toEqual([[], null]);
  expect(await page('until=2026-11-21T10:00:01Z&action=account_activated')).toEqual([['globex'], null]);
  expect((await page('actor=dashboard'))[0]).toHaveLength(4);
  expect((await page('actor=token:dashboard'))[0]).toHaveLength(4);
  expect(await page('actor=user:dashboard')).toEqual([[], null]);
  expect(await page('', own)).toEqual([['3', '2', '1'], null]);
  await ask('POST /accounts/acme/encryption/live/enable', { body: {} });
  expect((await page('environment=live'))[0]).toEqual(['acme']);
  expect((await page('environment=test'))[0]).toEqual([]);
  const origins = async (asked = {}): Promise<unknown[]> => {
    const { events } = (await ask('GET /audit?account=acme&limit=1', asked)).body as { events: { origin: unknown }[] };
    return events.map(({ origin }) => origin);
  };
  expect(await origins()).toEqual(['127.0.0.1']);
  expect(await origins(own)).toEqual([null]);
  expectProblem(await ask('GET /audit?account=globex', own), 403, 'forbidden');
  for (const query of ['after=x', 'before=-1', 'environment=other', 'action=other', 'actor=two%20words']) {
    expectProblem(await ask(`GET /audit?${query}`), 400, 'invalid_request');
  }
});

test('the overview shows the running configuration, the use of the limits, what expires soon, and the last hour', async () => {
  const { ask, sidecar, config } = await startApi({ accounts: [acme] });
  await fetch(`${sidecar.url}/api/v1/x`, { headers: { authorization: 'Bearer sk_test_0123456789abcdef' } });
  const overview = async (): Promise<Record<string, unknown>> => (await ask('GET /overview')).body;
  expect(await overview()).toMatchObject({
    version: '0.0.0',
    ready: true,
    configuration: { in_force: true, problems: [], needs_restart: [] },
    accounts_file: { in_force: true },
    database: null,
    master_keys: 0,
    certificates: [],
    limits: { in_flight: { limit: config.limits.inFlight, used: 0 }, buffered: { used: 0 } },
    counts: { accounts: 1, accounts_encrypting: 1, keys_due: 3, keys_expiring: 0, credentials_due: 0 },
  });
  const traffic = async (query: string) =>
    (await ask(`GET /traffic?${query}`)).body as { slot_seconds: number; slots: object[]; refusals: object[] };
  const hour = await traffic('');
  expect([hour.slot_seconds, hour.slots.length]).toEqual([60, 60]);
  expect(hour.slots.at(-1)).toMatchObject({ served: 0, refused: 1, failed: 0, left: 0, p50_ms: null, p99_ms: null });
  expect(hour.refusals).toEqual([{ code: 'invalid_api_key', count: 1 }]);
  const day = await traffic('span=24h&environment=test');
  expect([day.slot_seconds, day.slots.length, day.refusals.length]).toEqual([900, 96, 1]);
  expect((await traffic('environment=live')).refusals).toEqual([]);
  expectProblem(await ask('GET /traffic?span=2h'), 400, 'invalid_request');
  sidecar.app.apply({ ...config, admin: { host: '127.0.0.2', port: 0 } });
  expect(await overview()).toMatchObject({ configuration: { needs_restart: ['admin'] } });
  expectProblem(
    await startApi({ operators: operatorsOf([{ ...dashboard, account: 'acme' }]) }).then((api) =>
      api.ask('GET /overview'),
    ),
    403,
    'forbidden',
  );
});
