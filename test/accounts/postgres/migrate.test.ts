import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { migrate } from '../../../src/accounts/postgres/migrate.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { openStore, put, storedAccount } from './fixtures.ts';

const all = readdirSync('src/accounts/postgres/migrations').map((file) => file.replace(/\.sql$/, ''));

describeWithPostgres('migrations', () => {
  const postgres = usePostgres();

  async function emptyDatabase(): Promise<string> {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    return url;
  }

  test('make all tables, and nothing when they are there', async () => {
    const url = await emptyDatabase();
    expect(await migrate(url)).toEqual(all);
    await put(openStore(url), storedAccount('acme'));
    expect(await migrate(url)).toEqual([]);
    expect(await openStore(url).read('acme')).toEqual(storedAccount('acme'));
  });

  test('are carried out once where several begin at a time', async () => {
    const url = await emptyDatabase();
    const done = await Promise.all([migrate(url), migrate(url), migrate(url)]);
    expect(done.flat()).toEqual(all);
  });

  test('leave nothing behind where they fail', async () => {
    const url = await emptyDatabase();
    // The last thing that is made stands in the way.
    await postgres.psql(
      url,
      `CREATE SCHEMA envelope_sidecar; CREATE FUNCTION envelope_sidecar.announce_change() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    );
    await expect(migrate(url)).rejects.toMatchObject({
      message: 'the database failed (42723)',
    });
    const tables = `SELECT count(*) FROM pg_tables WHERE schemaname = 'envelope_sidecar' AND tablename <> 'migrations'`;
    expect(await postgres.psql(url, tables)).toBe('0');
  });

  test('touch nothing outside of their schema', async () => {
    const url = await emptyDatabase();
    await migrate(url);
    const outside = `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public'`;
    expect(await postgres.psql(url, outside)).toBe('0');
  });

  test('say what is wrong in one line', async () => {
    await expect(migrate('postgres://postgres:hunter2@127.0.0.1:1/x')).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'the database cannot be reached (ECONNREFUSED)',
    });
  });
});
