import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { runner } from 'node-pg-migrate';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { inspect } from '../../../src/accounts/postgres/inspect.ts';
import { migrate } from '../../../src/accounts/postgres/migrate.ts';
import { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import { Folder } from '../../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openDirectory, openStore, put, storedAccount } from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const folder = 'src/accounts/postgres/migrations';
const all = readdirSync(folder).map((file) => file.replace(/\.sql$/, ''));

/** Changes to the tables that a later version may make. As docs/runbook.md promises, it only adds columns and tables. */
const nextVersion = `
  ALTER TABLE accounts ADD COLUMN region text NOT NULL DEFAULT 'eu';
  ALTER TABLE api_keys ADD COLUMN scopes jsonb NOT NULL DEFAULT '[]';
  ALTER TABLE encryption ADD COLUMN suite text;
  ALTER TABLE audit ADD COLUMN source text;
  CREATE TABLE regions (name text PRIMARY KEY);
  INSERT INTO regions VALUES ('eu');
`;

/**
 * The statements of docs/postgresql.md that create the index for searches. They are separate, because the last one may not run in a
 * transaction.
 */
const searchIndex = (
  /^## Search\n[^]*?^```sql\n([^]*?)^```$/m.exec(readFileSync('docs/postgresql.md', 'utf8'))?.[1] ?? ''
)
  .split(/(?<=;\n)/)
  .filter((statement) => statement !== '');

/** The numbers are approximate, because planning a query also reads a row or two along the primary key. */
const everyRow = expect.closeTo(10_000, -2) as number;
const fewRows = expect.closeTo(0, -2) as number;

describeWithPostgres('migrations', () => {
  const postgres = usePostgres();

  async function emptyDatabase(): Promise<string> {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    return url;
  }

  test('create all tables once, and nothing if they exist', async () => {
    const url = await emptyDatabase();
    expect(await migrate(url, () => {})).toEqual(all);
    await put(openStore(url), storedAccount('acme'));
    expect(await migrate(url, () => {})).toEqual([]);
    expect(await openStore(url).read('acme')).toEqual(storedAccount('acme'));
  });

  test('that wait for a reader, such as a backup, let changes be made meanwhile', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const [first] = all.slice(-1);
    await postgres.psql(url, `DELETE FROM envelope_sidecar.migrations WHERE name = '${first}'`);
    await postgres.psql(
      url,
      `ALTER TABLE envelope_sidecar.changes DROP COLUMN announced; DROP FUNCTION envelope_sidecar.unannounced_changes`,
    );
    const reader = new Client({ connectionString: url });
    await reader.connect();
    await reader.query('BEGIN');
    await reader.query('LOCK TABLE envelope_sidecar.changes IN ACCESS SHARE MODE');
    let isMigrated = false;
    let waits = 0;
    const migrated = migrate(url, () => (waits += 1)).finally(() => (isMigrated = true));
    const waiting = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE '%alter table changes%'`;
    await expect.poll(() => postgres.psql(url, waiting), { timeout: 10_000, interval: 20 }).toBe('1');
    await postgres.psql(url, `SELECT pg_sleep(0.05); INSERT INTO envelope_sidecar.changes DEFAULT VALUES`);
    expect(isMigrated).toBe(false);
    await expect.poll(() => waits, { timeout: 10_000 }).toBe(1);
    await expect.poll(() => postgres.psql(url, waiting), { timeout: 10_000, interval: 20 }).toBe('1');
    await reader.end();
    expect(await migrated).toEqual([first]);
    expect(waits).toBe(1);
  });

  test('run once if several processes start them at the same time', async () => {
    const url = await emptyDatabase();
    const done = await Promise.all([migrate(url, () => {}), migrate(url, () => {}), migrate(url, () => {})]);
    expect(done.flat()).toEqual(all);
  });

  test('that fail leave nothing behind', async () => {
    const url = await emptyDatabase();
    // Create the object that the migration creates last, so that it fails at its end.
    await postgres.psql(
      url,
      `CREATE SCHEMA envelope_sidecar; CREATE FUNCTION envelope_sidecar.announce_change() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    );
    await expect(migrate(url, () => {})).rejects.toMatchObject({
      message: 'the database failed (42723)',
    });
    const tables = `SELECT count(*) FROM pg_tables WHERE schemaname = 'envelope_sidecar' AND tablename <> 'migrations'`;
    expect(await postgres.psql(url, tables)).toBe('0');
  });

  test('touch nothing outside their schema', async () => {
    const url = await emptyDatabase();
    await migrate(url, () => {});
    const outside = `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public'`;
    expect(await postgres.psql(url, outside)).toBe('0');
  });

  test('of a later version do not stop this version, during a rollout and after a rollback', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory } = await openDirectory(url);
    const holderOf = async (id: string, of = directory) => of.find(sha256Hex(keyNamed(id)));
    expect(await holderOf('acme')).toMatchObject({ account: { name: 'Account acme' } });

    const next = new Folder({});
    cpSync(folder, next.path, { recursive: true });
    writeFileSync(next.file('9999_next.sql'), nextVersion);
    const options = { schema: 'envelope_sidecar', migrationsTable: 'migrations', log: () => {} };
    const done = await runner({ ...options, databaseUrl: url, dir: next.path, direction: 'up' });
    expect(done.map(({ name }) => name)).toEqual(['9999_next']);
    await postgres.psql(url, "UPDATE envelope_sidecar.accounts SET region = 'us'");

    // Check a running directory, a new one, and the store.
    const store = openStore(url);
    await put(store, storedAccount('acme', { name: 'Acme Stores' }), storedAccount('globex'));
    for (const each of [directory, (await openDirectory(url)).directory]) {
      await expect.poll(() => holderOf('acme', each)).toMatchObject({ account: { name: 'Acme Stores' } });
      expect(await holderOf('globex', each)).toMatchObject({ account: { id: 'globex' } });
    }
    // The columns of the later version are left unchanged.
    expect(await postgres.psql(url, 'SELECT account_id, region FROM envelope_sidecar.accounts ORDER BY 1')).toBe(
      'acme|us\nglobex|eu',
    );
    expect(await inspect(url, 1)).toMatchObject({ missingRights: [] });
    expect(await migrate(url, () => {})).toEqual([]);
  });

  test('of this version that are missing are counted, and the accounts of the previous version are kept', async () => {
    const url = await emptyDatabase();
    const [last] = all.slice(-1);
    const before = { dir: folder, schema: 'envelope_sidecar', createSchema: true, migrationsTable: 'migrations' };
    await runner({ ...before, databaseUrl: url, direction: 'up', count: all.length - 1, log: () => {} });
    const insert = `
      INSERT INTO accounts VALUES ('acme', 'Acme', true);
      INSERT INTO api_keys (key_id, account_id, prefix, hash, created_at)
      VALUES ('k', 'acme', 'sk_test_', '\\x${sha256Hex(keyNamed('acme'))}', now())`;
    await postgres.psql(url, `SET search_path TO envelope_sidecar; ${insert}`);
    const message = `the schema is at version ${all.length - 1}, but version ${all.length} is needed: run "accounts migrate"`;
    await expect(inspect(url, 1)).rejects.toThrow(message);
    expect(await migrate(url, () => {})).toEqual([last]);
    const { directory } = await openDirectory(url);
    expect(await directory.find(sha256Hex(keyNamed('acme')))).toMatchObject({ account: { id: 'acme' } });
  });

  test('create no index for searches; the one in docs/postgresql.md serves them', async () => {
    const url = await postgres.createDatabase();
    const rows = `SELECT 'merchant-' || i, 'Store ' || md5(i::text), true FROM generate_series(1, 10000) AS i`;
    await postgres.psql(url, `INSERT INTO envelope_sidecar.accounts ${rows}; ANALYZE envelope_sidecar.accounts`);
    const search = async (text: string): Promise<{ found: string[]; read: number }> => {
      const before = await rowsRead(url);
      const store = new PostgresStore(url);
      const found: string[] = [];
      for await (const { id } of store.list(undefined, undefined, { search: text, now: 0 })) found.push(id);
      await store.close();
      return { found, read: (await rowsRead(url)) - before };
    };

    expect(await search('CHANT-7777')).toEqual({ found: ['merchant-7777'], read: everyRow });
    for (const statement of searchIndex) await postgres.psql(url, statement);
    expect(await search('CHANT-7777')).toEqual({ found: ['merchant-7777'], read: fewRows });
    // This is part of a name, which is the MD5 hash of the account's number.
    expect(await search('B52340B4DE4566B8')).toEqual({ found: ['merchant-4711'], read: fewRows });
    expect(await search('not there')).toEqual({ found: [], read: fewRows });
  });

  /** The number of rows of `accounts` that closed connections have read in sequence or along the primary key. */
  async function rowsRead(url: string): Promise<number> {
    const others =
      'SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';
    await expect.poll(() => postgres.psql(url, others)).toBe('0');
    const sql = `SELECT t.seq_tup_read + i.idx_tup_read
      FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid)
      WHERE t.relname = 'accounts' AND i.indexrelname = 'accounts_pkey'`;
    return Number(await postgres.psql(url, sql));
  }

  test('report an error in one line', async () => {
    await expect(migrate('postgres://postgres:hunter2@127.0.0.1:1/x', () => {})).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'the database cannot be reached (ECONNREFUSED)',
    });
  });
});
