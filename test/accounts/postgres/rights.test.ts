import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PostgresAccounts } from '../../../src/accounts/postgres/accounts.ts';
import { inspect } from '../../../src/accounts/postgres/inspect.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import {
  changeAll,
  keyNamed,
  masterKey,
  openDirectory,
  openStore,
  put,
  storedAccount,
  storedEncryption,
  storedKey,
} from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

/** The grants for this role in the documentation. */
function grantsTo(role: string): string {
  const blocks = [...readFileSync('docs/postgresql.md', 'utf8').matchAll(/```sql\n(?<sql>[^]*?)```/g)];
  const found = blocks.map((block) => block.groups?.['sql'] ?? '').filter((sql) => sql.includes(`TO ${role};`));
  expect(found).toHaveLength(1);
  return found.join('');
}

const event = { at: 0, actor: 'user:test', action: 'account_added', account: 'acme', details: {} } as const;

describeWithPostgres('the database roles in the documentation', () => {
  const postgres = usePostgres();

  async function databaseFor(role: string): Promise<{ readonly url: string; readonly owner: string }> {
    const owner = await postgres.createDatabase();
    // The role may exist already, because roles belong to the server, not to the database.
    await postgres.psql(owner, `CREATE ROLE ${role} LOGIN`).catch(() => {});
    await postgres.psql(owner, grantsTo(role));
    return { owner, url: owner.replace('user=postgres', `user=${role}`) };
  }

  test('let operators make every change, but neither edit the trail nor alter tables', async () => {
    const { url, owner } = await databaseFor('sidecar_operator');
    const store = openStore(url);
    const decision = { accounts: [storedAccount('acme')], events: [event], result: 1, receipt: '{}' };
    await store.change(['acme'], () => decision, { key: 'once', request: 'aa' });
    expect(await store.change(['acme'], () => decision, { key: 'once', request: 'aa' })).toMatchObject({
      outcome: 'repeated',
    });
    await put(store, storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } }));
    await put(store, storedAccount('acme', { keys: [] }));
    expect(await changeAll(store, (account) => ({ ...account, name: 'New' }), event)).toBe(1);
    for (const sql of [
      `UPDATE envelope_sidecar.trail SET line = '{}'`,
      'DELETE FROM envelope_sidecar.trail',
      'TRUNCATE envelope_sidecar.trail',
      'DROP TABLE envelope_sidecar.trail',
      'ALTER TABLE envelope_sidecar.accounts DISABLE TRIGGER ALL',
      'CREATE TABLE envelope_sidecar.more ()',
    ]) {
      await expect(postgres.psql(url, sql)).rejects.toThrow(/permission denied|must be owner/);
    }
    const far = 'INSERT INTO envelope_sidecar.trail SELECT 9007199254740991, line FROM envelope_sidecar.trail LIMIT 1';
    await expect(postgres.psql(url, far)).rejects.toThrow('the trail has no line before this position');
    const encrypting = storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } });
    await put(store, encrypting);
    const long = "'sealed:v1:' || repeat('x', 1048576)";
    for (const [sql, constraint] of [
      [
        `INSERT INTO envelope_sidecar.trail SELECT max(position) + 1, ${long} FROM envelope_sidecar.trail`,
        'line_length',
      ],
      [`UPDATE envelope_sidecar.encryption SET iv = ${long}`, 'credentials_length'],
      [`UPDATE envelope_sidecar.receipts SET receipt = ${long}`, 'receipt_length'],
    ] as const) {
      await expect(postgres.psql(url, sql)).rejects.toThrow(constraint);
    }
    const older = `INSERT INTO envelope_sidecar.audit (at, actor, action, details) VALUES (now(), 'user:x', 'key_issued', '{}')`;
    await expect(postgres.psql(url, older)).rejects.toThrow('permission denied');
    expect(await postgres.psql(owner, 'SELECT count(*) FROM envelope_sidecar.trail')).toBe('2');
  });

  test.each([
    ['sidecar_operator', 'SELECT', 'receipts'],
    ['sidecar_operator', 'DELETE', 'encryption'],
    ['sidecar_operator', 'INSERT', 'trail'],
    ['sidecar', 'UPDATE (used_at)', 'key_uses'],
    ['sidecar', 'INSERT', 'previous_uses'],
    ['sidecar', 'UPDATE (requests)', 'key_hours'],
    ['sidecar_operator', 'SELECT', 'key_hours'],
  ])('are what %s needs: without %s on %s, the missing right is reported', async (role, right, table) => {
    const { url, owner } = await databaseFor(role);
    expect((await inspect(url, 1)).missingRights).toEqual([]);
    await postgres.psql(owner, `REVOKE ${right} ON envelope_sidecar.${table} FROM ${role}`);
    expect((await inspect(url, 1)).missingRights).toEqual([`${right.replace(/ \(.*\)/, '')} on ${table}`]);
  });

  test('are what a sidecar needs: without EXECUTE on a function, the missing right is reported', async () => {
    const { url, owner } = await databaseFor('sidecar');
    await postgres.psql(owner, 'REVOKE EXECUTE ON FUNCTION envelope_sidecar.trail_state FROM PUBLIC');
    expect((await inspect(url, 1)).missingRights).toEqual(['EXECUTE on function trail_state(bigint)']);
  });

  test("of a sidecar are too few for the operators' API, and the missing rights are reported", async () => {
    const { url } = await databaseFor('sidecar');
    expect((await inspect(url, 1, true)).missingRights).toContain('INSERT on accounts');
  });

  test.each(['sidecar', 'sidecar_operator'])('give %s no way to run its own code as the owner', async (role) => {
    const { url, owner } = await databaseFor(role);
    const functions = await postgres.psql(
      owner,
      `SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = 'envelope_sidecar'::regnamespace AND prosecdef AND prorettype = 'trigger'::regtype`,
    );
    expect(functions).toBe('announce_change refuse_gap');
    // Objects of the caller that the functions could use by mistake: a view with the name of a relation that they read, and a column whose
    // type has a cast that runs the caller's code.
    const own = `
      CREATE FUNCTION pg_temp.code() RETURNS text LANGUAGE sql AS $$ SELECT 'runs as ' || current_user $$;
      CREATE TEMP VIEW new_rows AS SELECT pg_temp.code() AS account_id;
      CREATE TYPE pg_temp.kind AS ENUM ('one');
      CREATE FUNCTION pg_temp.cast(pg_temp.kind) RETURNS bigint LANGUAGE sql AS $$ SELECT length(pg_temp.code())::bigint $$;
      CREATE CAST (pg_temp.kind AS bigint) WITH FUNCTION pg_temp.cast(pg_temp.kind) AS IMPLICIT;
      CREATE TEMP TABLE own (position pg_temp.kind);`;
    for (const name of functions.split(' ')) {
      const trigger = `CREATE TRIGGER own AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION envelope_sidecar.${name}()`;
      await expect(postgres.psql(url, `${own} ${trigger}; INSERT INTO own VALUES ('one')`)).rejects.toThrow(
        'this function is for the tables of envelope_sidecar',
      );
    }
  });

  test('let nobody announce changes of other tables', async () => {
    const { url, owner } = await databaseFor('sidecar');
    await postgres.psql(
      owner,
      `CREATE SCHEMA other;
        CREATE TABLE other.rows (account_id text);
        CREATE TRIGGER announce AFTER INSERT ON other.rows REFERENCING NEW TABLE AS new_rows
          FOR EACH STATEMENT EXECUTE FUNCTION envelope_sidecar.announce_change();
        GRANT USAGE ON SCHEMA other TO sidecar;
        GRANT INSERT ON other.rows TO sidecar`,
    );
    await expect(postgres.psql(url, `INSERT INTO other.rows VALUES ('acme')`)).rejects.toThrow(
      'this function is for the tables of envelope_sidecar',
    );
  });

  test('let sidecars serve merchants, but not change accounts', async () => {
    const { url, owner } = await databaseFor('sidecar');
    await put(openStore(owner), storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } }));
    const { monitor } = await openDirectory(url);
    const settings = { url, masterKeys: [masterKey], auditKeys: [], cache: 10, staleFor: 0 };
    const accounts = new PostgresAccounts(
      settings,
      Date.now,
      () => performance.now(),
      monitor,
      () => {},
    );
    await accounts.open();
    expect(await accounts.directory.find(sha256Hex(keyNamed('acme')))).toMatchObject({ account: { id: 'acme' } });
    // Use the current time, because old counts would be deleted.
    const usedAt = Date.now();
    accounts.directory.uses.key(storedKey(keyNamed('acme')).id, usedAt);
    accounts.directory.uses.previous('acme', 'live', 9_000, 7_000);
    await accounts.close();
    expect((await openStore(owner).read('acme'))?.keys[0]?.lastUsedAt).toBe(usedAt);
    expect(await postgres.psql(owner, 'SELECT sum(requests) FROM envelope_sidecar.key_hours')).toBe('1');
    for (const table of [
      'accounts',
      'api_keys',
      'encryption',
      'audit',
      'receipts',
      'key_uses',
      'previous_uses',
      'key_hours',
    ]) {
      const lock = `BEGIN; LOCK TABLE envelope_sidecar.${table} IN SHARE MODE`;
      await expect(postgres.psql(url, lock)).rejects.toThrow('permission denied');
    }
    await expect(put(openStore(url), storedAccount('acme', { active: false }))).rejects.toMatchObject({
      code: 'store_read_only',
    });
    expect(monitor.failures).toEqual([]);
  });
});
