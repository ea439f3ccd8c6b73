import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { lockFile } from '../../src/accounts/file/lock.ts';
import type { OperatorsToken } from '../../src/config/config.ts';
import { lockAccount, settings } from '../accounts/postgres/fixtures.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { ask, beginRequest, dashboard, startApi, token, type TestApi } from './api.ts';

const own = 'token-that-is-about-to-be-removed-0123456789';
const leaving = admin('leaving', own);
const body = '{"environment":"live","kind":"secret"}';

async function startWithAcme(follows?: Parameters<typeof startApi>[2]): Promise<TestApi> {
  const api = await startApi({ operators: operatorsOf([dashboard, leaving]) }, undefined, follows);
  await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
  return api;
}

/** Makes the sidecar accept only these tokens. */
function accept({ sidecar, config }: TestApi, ...tokens: readonly OperatorsToken[]): void {
  sidecar.app.apply({ ...config, operators: operatorsOf(tokens) });
}

const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

async function keysOfAcme({ ask }: TestApi): Promise<unknown> {
  return (await ask('GET /accounts/acme/keys')).body['keys'];
}

test('a token that is removed while the body of its request arrives makes no key', async () => {
  const api = await startWithAcme();
  const client = await beginRequest(api.url, 'POST /accounts/acme/keys', body, own);
  accept(api, dashboard);
  client.send('}');
  expect(await client.untilText('"request_id"')).toMatch(/^HTTP\/1\.1 401 [^]*This token is no longer accepted/);
  expect(await keysOfAcme(api)).toEqual([]);
});

test.each([
  ['a lower role', { role: 'viewer' }, 'The role of this token is viewer'],
  ['another account', { account: 'globex' }, 'This token is for account globex only'],
] as const)('a token that gets %s while the body of its request arrives makes no key', async (_, change, detail) => {
  const api = await startWithAcme();
  const client = await beginRequest(api.url, 'POST /accounts/acme/keys', body, own);
  accept(api, dashboard, { ...leaving, ...change });
  client.send('}');
  const response = await client.untilText('"request_id"');
  expect(response).toMatch(/^HTTP\/1\.1 403 /);
  expect(response).toContain(detail);
  expect(await keysOfAcme(api)).toEqual([]);
});

test('a token that is removed while its requests wait for each other and for the file makes no key, and is shown none', async () => {
  const api = await startWithAcme();
  const release = await lockFile(api.folder.file('accounts.yaml'), 0);
  const requests = [1, 2, 3].map(() => ask(api.url, 'POST /accounts/acme/keys', { body, token: own }));
  await delay(500);
  accept(api, dashboard);
  await delay(300);
  release();
  const responses = await Promise.all(requests);
  expect(responses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([401, 401, 401]);
  expect(await keysOfAcme(api)).toEqual([]);
  expect((await api.ask('GET /accounts', { token })).status).toBe(200);
});

test('a token that is removed while its new key is being put into force is not shown the key', async () => {
  // The sidecar does not read the file again, so the request waits for as long as the API lets it.
  const api = await startWithAcme('is deaf');
  const issued = ask(api.url, 'POST /accounts/acme/keys', { body, token: own });
  await expect.poll(() => keysOfAcme(api)).toHaveLength(1);
  accept(api, dashboard);
  expect(await issued).toMatchObject({ status: 401, body: { code: 'unauthorized' } });
});

test.each([
  ['others', true],
  ['the file', false],
])(
  'a token that gets a lower role while its change waits for %s loses the rights of its previous role',
  async (_, forOthers) => {
    const api = await startWithAcme();
    const release = await lockFile(api.folder.file('accounts.yaml'), 0);
    const others = forOthers ? api.ask('POST /accounts/acme/rename', { body: { name: 'Acme Ltd' } }) : undefined;
    await delay(500);
    // Only the role admin may allow plaintext in live.
    const enabled = ask(api.url, 'POST /accounts/acme/encryption/live/enable', { body: '{"grace":"1h"}', token: own });
    await delay(200);
    accept(api, dashboard, { ...leaving, role: 'operator' });
    await delay(300);
    release();
    expect((await others)?.status ?? 200).toBe(200);
    const forbidden = { code: 'forbidden', detail: 'The role of this token has changed.' };
    expect(await enabled).toMatchObject({ status: 403, body: forbidden });
    expect((await api.ask('GET /accounts/acme/encryption/live')).body).toMatchObject({ enabled: false });
  },
);

describeWithPostgres('with accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  test('a token that is removed while its change waits for a locked account makes no key', async () => {
    const url = await postgres.createDatabase();
    const store = settings(url);
    const api = await startApi({ accounts: [], store, operators: operatorsOf([dashboard, leaving]) });
    await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    const unlock = await lockAccount(url, 'acme');
    const issued = ask(api.url, 'POST /accounts/acme/keys', { body, token: own });
    await expect.poll(() => postgres.psql(url, waiting)).toBe('1');
    accept(api, dashboard);
    await unlock();
    expect(await issued).toMatchObject({ status: 401, body: { code: 'unauthorized' } });
    expect(await keysOfAcme(api)).toEqual([]);
  });

  test.each(['accounts', 'accounts/acme', 'audit'])(
    'a token that is removed while GET /%s waits for the database is shown nothing',
    async (path) => {
      const url = await postgres.createDatabase();
      const api = await startApi({ accounts: [], store: settings(url), operators: operatorsOf([dashboard, leaving]) });
      await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
      const holder = new Client({ connectionString: url });
      await holder.connect();
      onTestFinished(() => holder.end());
      await holder.query(
        'BEGIN; LOCK TABLE envelope_sidecar.accounts, envelope_sidecar.trail IN ACCESS EXCLUSIVE MODE',
      );
      const shown = ask(api.url, `GET /${path}`, { token: own });
      await expect.poll(() => postgres.psql(url, waiting)).not.toBe('0');
      accept(api, dashboard);
      await holder.query('ROLLBACK');
      expect(await shown).toMatchObject({ status: 401, body: { code: 'unauthorized' } });
    },
  );

  test('a token that is removed while its change waits for the trail makes no key', async () => {
    const url = await postgres.createDatabase();
    const api = await startApi({ accounts: [], store: settings(url), operators: operatorsOf([dashboard, leaving]) });
    await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    const holder = new Client({ connectionString: url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query('BEGIN');
    await holder.query(`INSERT INTO envelope_sidecar.trail SELECT max(position) + 1, '{}' FROM envelope_sidecar.trail`);
    const issued = ask(api.url, 'POST /accounts/acme/keys', { body, token: own });
    await expect.poll(() => postgres.psql(url, waiting)).toBe('1');
    accept(api, dashboard);
    await holder.query('ROLLBACK');
    expect(await issued).toMatchObject({ status: 401, body: { code: 'unauthorized' } });
    expect(await keysOfAcme(api)).toEqual([]);
  });
});
