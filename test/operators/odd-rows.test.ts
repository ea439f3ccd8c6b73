import { expect, test } from 'vitest';
import { Operations } from '../../src/accounts/operations.ts';
import { settings, openStore, vault } from '../accounts/postgres/fixtures.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { admin, configOf, operatorsOf, startSidecar } from '../support/sidecar.ts';
import { ask, dashboard } from './api.ts';

const actor = 'user:test';

describeWithPostgres('a row that cannot be read', () => {
  const postgres = usePostgres();

  test('is named by the list, which has all other accounts, and breaks only the pages of its own account', async () => {
    const database = await postgres.createDatabase();
    const operations = new Operations({ store: openStore(database), vault, clock: Date.now, audit: () => {} });
    const issue = { environment: 'test', kind: 'secret', lifetime: undefined } as const;
    for (const id of ['good', 'odd', 'zulu']) {
      await operations.add(id, id, { actor });
      await operations.issueKey(id, issue, { actor });
    }
    const odd = `UPDATE envelope_sidecar.api_keys SET created_at = 'infinity' WHERE account_id = 'odd'`;
    await postgres.psql(database, odd);
    const store = settings(database, { cache: 10, staleFor: 60_000 });
    const ownToken = 'token-of-the-account-good-0123456789-abcdef';
    const operators = operatorsOf([dashboard, { ...admin('good', ownToken), role: 'operator', account: 'good' }]);
    const { app } = await startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store, operators }));
    const url = `http://127.0.0.1:${String(app.addresses.operators?.port)}/api/v1`;

    expect(await ask(url, 'GET /accounts')).toMatchObject({
      status: 200,
      body: {
        accounts: [{ id: 'good' }, { id: 'zulu' }],
        unreadable: [expect.stringMatching(/^account odd: the created_at of key /) as string],
      },
    });
    // A token of one account learns nothing about the rows of other accounts.
    expect(await ask(url, 'GET /accounts', { token: ownToken })).toMatchObject({
      status: 200,
      body: { accounts: [{ id: 'good' }], unreadable: [] },
    });
    expect(await ask(url, 'GET /accounts/odd')).toMatchObject({ status: 500, body: { code: 'store_invalid' } });
    expect(await ask(url, 'GET /accounts/zulu')).toMatchObject({ status: 200, body: { id: 'zulu' } });

    await postgres.psql(database, odd.replace('created_at', 'created_at = now(), expires_at'));
    expect(await ask(url, 'GET /accounts/odd')).toMatchObject({ status: 200, body: { keys: [{ expires_at: null }] } });
    expect(await ask(url, 'GET /accounts')).toMatchObject({ body: { unreadable: [] } });
  });
});
