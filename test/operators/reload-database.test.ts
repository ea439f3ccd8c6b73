import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { settings } from '../accounts/postgres/fixtures.ts';
import { admin, operatorsOf } from '../support/sidecar.ts';
import { describeWithPostgres, usePostgres } from '../support/postgres.ts';
import { dashboard, startApi } from './api.ts';

describeWithPostgres('a reload that changes the settings of PostgreSQL', () => {
  const postgres = usePostgres();

  test('does not end a read in progress', async () => {
    const direct = await postgres.createDatabase();
    const slow = await postgres.proxy(direct);
    // Add so many accounts that the read needs more than one statement. If the pool were closed, the next statement would fail.
    await postgres.psql(
      direct,
      "INSERT INTO envelope_sidecar.accounts SELECT 'a' || i, 'A', true FROM generate_series(1, 501) AS i",
    );
    const { ask, sidecar, config } = await startApi({ accounts: [], store: settings(slow.url) });
    slow.hold();
    const read = ask('GET /accounts?limit=1000');
    await expect.poll(() => slow.held.length).toBeGreaterThan(0);
    sidecar.app.apply({ ...config, store: settings(direct) });
    // Wait until the previous store would be closed, which happens only after its last write of uses.
    await delay(2_500);
    slow.release();
    expect((await read).status).toBe(200);
  });

  test('does not end a request to seal a body that waits for a connection', async () => {
    const direct = await postgres.createDatabase();
    const slow = await postgres.proxy(direct);
    const core = { ...admin('core', 'core-token-0123456789-0123456789'), role: 'core' as const };
    const operators = operatorsOf([dashboard, core]);
    const { ask, url, sidecar, config } = await startApi({ accounts: [], store: settings(slow.url), operators });
    await ask('POST /accounts', { body: { id: 'acme', name: 'Acme' } });
    slow.hold();
    const seal = async (): Promise<number> => {
      const headers = { authorization: 'Bearer core-token-0123456789-0123456789' };
      const address = `${url}/accounts/acme/encryption/test/seal`;
      return (await fetch(address, { method: 'POST', headers, body: '{}' })).status;
    };
    const seals = Promise.all(Array.from({ length: 6 }, seal));
    await expect.poll(() => slow.held.length).toBeGreaterThan(0);
    sidecar.app.apply({ ...config, store: settings(direct) });
    await delay(2_500);
    slow.release();
    // The account does not encrypt, so each request gets 409.
    expect(await seals).toEqual(Array(6).fill(409));
  });
});
