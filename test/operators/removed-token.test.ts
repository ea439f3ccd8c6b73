import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { lockFile } from '../../src/accounts/file/lock.ts';
import type { OperatorsToken } from '../../src/config/config.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { ask, beginRequest, dashboard, startApi, token, type TestApi } from './api.ts';

const own = 'token-that-is-about-to-be-removed-0123456789';
const leaving = admin('leaving', own);
const body = '{"environment":"live","kind":"secret"}';

async function startWithAcme(): Promise<TestApi> {
  const api = await startApi({ operators: operatorsOf([dashboard, leaving]) });
  await api.ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
  return api;
}

/** Has the sidecar accept these tokens. */
function accept({ sidecar, config }: TestApi, ...tokens: readonly OperatorsToken[]): void {
  sidecar.app.apply({ ...config, operators: operatorsOf(tokens) });
}

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

test('a token that is removed while its requests wait for each other makes no key by those that have not begun, and is shown none', async () => {
  const api = await startWithAcme();
  const release = await lockFile(api.folder.file('accounts.yaml'), 0);
  const requests = [1, 2, 3].map(() => ask(api.url, 'POST /accounts/acme/keys', { body, token: own }));
  await delay(500);
  accept(api, dashboard);
  release();
  const responses = await Promise.all(requests);
  expect(responses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([401, 401, 401]);
  expect(await keysOfAcme(api)).toHaveLength(1);
  expect((await api.ask('GET /accounts', { token })).status).toBe(200);
});
