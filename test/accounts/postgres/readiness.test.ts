import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { migrate } from '../../../src/accounts/postgres/migrate.ts';
import { eventually } from '../../support/eventually.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { configOf, startSidecar, type TestSidecar } from '../../support/sidecar.ts';
import { settings } from './fixtures.ts';

const patience = { timeout: 15_000 };

const isReady = async ({ adminUrl }: TestSidecar): Promise<boolean> => (await fetch(`${adminUrl}/readyz`)).ok;
const reasons = ({ log }: TestSidecar): unknown[] =>
  log.filter(({ msg }) => String(msg).startsWith('not ready')).map(({ problem }) => problem);

describeWithPostgres('a sidecar that starts is not ready', () => {
  const postgres = usePostgres();

  const start = (url: string): Promise<TestSidecar> =>
    startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) }));

  async function emptyDatabase(): Promise<string> {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    return url;
  }

  test('until its database has the tables, and says which command creates them', async () => {
    const url = await emptyDatabase();
    const sidecar = await start(url);
    expect(await isReady(sidecar)).toBe(false);
    expect(reasons(sidecar)).toEqual([
      expect.stringMatching(/^the schema is at version 0, but version [1-9]\d* is needed: run "accounts migrate"$/),
    ]);
    await migrate(url, () => {});
    await eventually('the sidecar is ready', () => isReady(sidecar), patience);
  });

  test('until its database has the last table that this version needs', async () => {
    const url = await postgres.createDatabase();
    const latest = 'name = (SELECT max(name) FROM envelope_sidecar.migrations)';
    await postgres.psql(url, `CREATE TABLE kept AS SELECT * FROM envelope_sidecar.migrations WHERE ${latest}`);
    await postgres.psql(url, `DELETE FROM envelope_sidecar.migrations WHERE ${latest}`);
    const sidecar = await start(url);
    expect(await isReady(sidecar)).toBe(false);
    expect(reasons(sidecar)).toEqual([
      expect.stringMatching(/^the schema is at version ([1-9]\d*), but version (?!\1 )\d+ is needed: run /),
    ]);
    await postgres.psql(url, 'INSERT INTO envelope_sidecar.migrations SELECT * FROM kept');
    await eventually('the sidecar is ready', () => isReady(sidecar), patience);
  });

  test('if a later version has migrated the tables, it is ready', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(url, `INSERT INTO envelope_sidecar.migrations (name, run_on) VALUES ('9999_later', now())`);
    expect(await isReady(await start(url))).toBe(true);
  });

  test('until it has reached its database once, and logs each reason once', async () => {
    const proxy = await postgres.proxy(await postgres.createDatabase());
    proxy.cut();
    const sidecar = await start(proxy.url);
    expect(await isReady(sidecar)).toBe(false);
    await eventually('the reason is logged', () => reasons(sidecar).length > 0, patience);
    proxy.mend();
    await eventually('the sidecar is ready', () => isReady(sidecar), patience);
    expect(reasons(sidecar)).toEqual([expect.stringMatching(/^the database cannot be reached \(.+\)$/)]);
    proxy.cut();
    await eventually(
      'the outage is logged',
      () => sidecar.log.some(({ msg }) => String(msg).startsWith('no connection')),
      patience,
    );
    expect(await isReady(sidecar)).toBe(true);
  });

  test('and if another store replaces its database before that has responded, it is not tested any more', async () => {
    const proxy = await postgres.proxy(await postgres.createDatabase());
    proxy.mute();
    const file = await startSidecar(configOf('http://127.0.0.1:1'));
    const { app } = file;
    const inDatabase = (url: string) => configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) });
    app.apply(inDatabase(proxy.url));
    await eventually('the first database is asked', () => proxy.connections > 0, patience);
    app.apply(inDatabase(await postgres.createDatabase()));
    proxy.cut();
    await delay(500);
    expect(file.log.filter(({ msg }) => String(msg).includes('cannot be read from their database'))).toEqual([]);
    expect(await isReady(file)).toBe(true);
  });

  test.each([
    ['user', (url: string) => url.replace('postgres@', 'nobody@'), 'rejected the user'],
    ['database', (url: string) => url.replace(/[^/]*$/, 'nowhere'), 'no database with this name'],
  ])('with a wrong %s in the URL', async (_what, change, reason) => {
    const { url } = await postgres.proxy(await postgres.createDatabase());
    const server = await start(change(url));
    await eventually('the reason is logged', () => reasons(server).length > 0, patience);
    expect(await isReady(server)).toBe(false);
    expect(reasons(server)).toEqual([expect.stringContaining(reason)]);
  });
});
