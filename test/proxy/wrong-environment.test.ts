import { expect, test } from 'vitest';
import type { LookupResult } from '../../src/accounts/key-directory.ts';
import { Operations } from '../../src/accounts/operations.ts';
import { openStore, settings, vault } from '../accounts/postgres/fixtures.ts';
import { ask, dashboard } from '../operators/api.ts';
import { expectPlainRefusal, send } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { startGateway } from '../support/gateway.ts';
import { startOverDirectory } from '../support/over-directory.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { apiKey, configOf, keys, operatorsOf, startSidecar, type TestSidecar } from '../support/sidecar.ts';

/** Sends a request with a key of the other environment, which is refused, and returns its access line. */
async function lineOf(sidecar: TestSidecar, key: string): Promise<Record<string, unknown>> {
  const before = sidecar.accessLines().length;
  expectPlainRefusal(await send(sidecar, 'GET /x', { key }), 'environment_mismatch');
  await eventually('there is an access line', () => sidecar.accessLines().length > before);
  return sidecar.accessLines()[before] ?? {};
}

test('a key in the wrong environment is named on the access line and in the activity, and does not count as used', async () => {
  const { sidecar, upstream } = await startGateway({ operators: operatorsOf([dashboard]) });
  const key = apiKey(keys.acmeLive).id;
  const line = await lineOf(sidecar, keys.acmeLive);
  expect(line).toMatchObject({ status: 403, environment: 'test', account: 'acme', api_key: key });
  expect(line).not.toHaveProperty('reason');
  const unknown = await lineOf(sidecar, `${keys.acmeLive}x`);
  expect(unknown).not.toHaveProperty('account');
  const url = `http://127.0.0.1:${sidecar.app.addresses.operators?.port}/api/v1`;
  const activity = await ask(url, 'GET /activity');
  expect(activity.body['refusals']).toMatchObject([
    { account: 'acme', environment: 'test', key, code: 'environment_mismatch', reason: null },
  ]);
  const overview = await ask(url, 'GET /failures?environment=test');
  expect(overview.body['failures']).toMatchObject([{ account: 'acme', refusals: 1 }]);
  expect(upstream.heads()).toBe(0);
});

test('a request with a key in the wrong environment does not wait for a look-up, and such look-ups have the limit for throttled clients', async () => {
  let asked = 0;
  const never = new Promise<LookupResult>(() => {});
  const find = (): Promise<LookupResult> => {
    asked += 1;
    return never;
  };
  const gateway = await startOverDirectory({ find, holds: () => false, serves: () => false }, { inFlight: 64 });
  for (let i = 0; i < 20; i += 1) {
    expectPlainRefusal(await send(gateway, 'GET /x', { key: `${keys.acmeLive}${i}` }), 'environment_mismatch');
  }
  // Look-ups of throttled clients get an eighth of a quarter of the 64 slots.
  expect(asked).toBe(2);
});

test('a failed look-up of a key in the wrong environment does no harm', async () => {
  const find = (): Promise<LookupResult> => Promise.reject(new Error('gone'));
  const gateway = await startOverDirectory({ find, holds: () => false, serves: () => false }, { inFlight: 64 });
  for (let i = 0; i < 3; i += 1) {
    expectPlainRefusal(await send(gateway, 'GET /x', { key: keys.acmeLive }), 'environment_mismatch');
  }
});

describeWithPostgres('with accounts in PostgreSQL', () => {
  const postgres = usePostgres();

  test('a key in the wrong environment is named once it has been looked up', async () => {
    const url = await postgres.createDatabase();
    const operations = new Operations({ store: openStore(url), vault, clock: Date.now, audit: () => {} });
    await operations.add('acme', 'Acme Stores', { actor: 'user:test' });
    const options = { environment: 'live', kind: 'secret', lifetime: undefined } as const;
    const issued = await operations.issueKey('acme', options, { actor: 'user:test' });
    const { id, key } = JSON.parse(JSON.stringify(issued)) as { id: string; key: string };
    const sidecar = await startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) }));
    const lines: Record<string, unknown>[] = [];
    await eventually('the access line names the account', async () => {
      lines.push(await lineOf(sidecar, key));
      return lines.at(-1)?.['account'] !== undefined;
    });
    expect(lines[0]).not.toHaveProperty('account');
    expect(lines.at(-1)).toMatchObject({ account: 'acme', api_key: id, code: 'environment_mismatch' });
  });
});
