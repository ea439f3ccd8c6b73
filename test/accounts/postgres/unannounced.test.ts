import { Client } from 'pg';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Operations } from '../../../src/accounts/operations.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import {
  holdCommits,
  keyNamed,
  lockAccount,
  openDirectory,
  openStore,
  put,
  storedAccount,
  storedKey,
  vault,
} from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const request = { actor: 'user:test' };
const keyId = storedKey(keyNamed('acme')).id;

/** How long it may take until a change without a notification is seen: a heartbeat and its query. */
const soon = { timeout: 2_500, interval: 5 };

describeWithPostgres('a change that cannot be announced', () => {
  const postgres = usePostgres();

  /** Makes PostgreSQL report that this fraction (0 to 1) of its notification queue is in use. */
  async function setUsage(url: string, usage: number): Promise<void> {
    await postgres.psql(
      url,
      `SET allow_system_table_mods = on;
        CREATE OR REPLACE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT ${usage}::float8'`,
    );
  }

  async function createBusyDatabase(usage: number): Promise<string> {
    const url = await postgres.createDatabase();
    await setUsage(url, usage);
    return url;
  }

  /** Opens a directory and waits until it has cached the key. */
  async function openCached(url: string) {
    await put(openStore(url), storedAccount('acme'));
    const { directory } = await openDirectory(url);
    const hash = sha256Hex(keyNamed('acme'));
    const find = async (): Promise<unknown> => directory.find(hash);
    // The key may not be cached at once, because a directory that has just opened treats the last unannounced change as a new one.
    await vi.waitFor(async () => {
      await find();
      expect(directory.holds(hash)).toBe(true);
    }, soon);
    return { find };
  }

  const notifications = async (url: string): Promise<{ readonly heard: string[] }> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const heard: string[] = [];
    client.on('notification', ({ payload }) => heard.push(String(payload)));
    await client.query('LISTEN envelope_sidecar_accounts');
    return { heard };
  };

  const marked = (url: string): Promise<string> => postgres.psql(url, 'SELECT envelope_sidecar.unannounced_changes()');

  test('is made if the queue of notifications is almost full, and seen by sidecars', async () => {
    const url = await createBusyDatabase(0.9);
    const { find } = await openCached(url);
    const { heard } = await notifications(url);
    await postgres.psql(url, 'UPDATE envelope_sidecar.api_keys SET revoked_at = to_timestamp(9)');
    await vi.waitFor(async () => expect(await find()).toMatchObject({ key: { revokedAt: 9_000 } }), soon);
    expect(heard).toEqual([]);
  });

  test('is seen even if it is committed after changes that have begun later', async () => {
    const url = await createBusyDatabase(0.9);
    await put(openStore(url), storedAccount('globex'));
    const { find } = await openCached(url);
    const late = new Client({ connectionString: url });
    await late.connect();
    onTestFinished(() => late.end());
    await late.query('BEGIN');
    await late.query(`UPDATE envelope_sidecar.api_keys SET revoked_at = to_timestamp(9) WHERE account_id = 'acme'`);
    const before = await find();
    await postgres.psql(url, `UPDATE envelope_sidecar.accounts SET name = 'New' WHERE account_id = 'globex'`);
    await vi.waitFor(async () => expect(await find()).not.toBe(before), soon);
    await late.query('COMMIT');
    await vi.waitFor(async () => expect(await find()).toMatchObject({ key: { revokedAt: 9_000 } }), soon);
  });

  test.each([
    [0.49, false],
    // Such changes are also notified, because sidecars of the previous version do not look for marked changes.
    [0.5, true],
    [0.89, true],
  ])('is notified if %d of the queue is full', async (usage, isMarked) => {
    const url = await createBusyDatabase(usage);
    const { heard } = await notifications(url);
    await put(openStore(url), storedAccount('acme'));
    await vi.waitFor(() => expect(heard).toContain('acme'), soon);
    expect((await marked(url)) !== '0 0').toBe(isMarked);
  });

  test('is found even after a thousand announced changes', async () => {
    const url = await createBusyDatabase(0.5);
    await put(openStore(url), storedAccount('acme'));
    await postgres.psql(url, 'UPDATE envelope_sidecar.accounts SET active = false');
    const before = await marked(url);
    await setUsage(url, 0);
    await postgres.psql(
      url,
      `DO $$ BEGIN FOR i IN 1..2500 LOOP UPDATE envelope_sidecar.accounts SET active = (i % 2 = 0); END LOOP; END $$`,
    );
    expect(Number(await postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.changes'))).toBeLessThan(2_100);
    expect(before).not.toBe('0 0');
    expect(await marked(url)).toBe(before);
  });

  test('is made if the queue of notifications is full at its commit', async () => {
    const url = await postgres.createDatabase();
    const operations = new Operations({ store: openStore(url), vault, clock: Date.now, audit: () => {} });
    await operations.add('acme', 'Acme', request);
    // Fail as PostgreSQL does when its queue is full. Filling the real queue would take 8 GB.
    await postgres.psql(
      url,
      `CREATE FUNCTION full_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF coalesce(current_setting('envelope_sidecar.unannounced', true), '') <> 'on' THEN
            RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
          END IF;
          RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER full_queue AFTER UPDATE ON envelope_sidecar.accounts
          DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_queue()`,
    );
    expect(await operations.setActive('acme', false, request)).toMatchObject({ active: false });
    expect((await operations.show('acme')).active).toBe(false);
  });

  test('does not result from another account that is locked: other changes are announced', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('globex'));
    const operations = new Operations({ store: openStore(url), vault, clock: Date.now, audit: () => {} });
    await operations.add('acme', 'Acme', request);
    const { heard } = await notifications(url);
    await lockAccount(url, 'globex');
    await expect(operations.rename('globex', 'New', request)).rejects.toMatchObject({ code: 'store_locked' });
    await operations.rename('acme', 'New', request);
    await vi.waitFor(() => expect(heard).toContain('acme'), soon);
  }, 20_000);

  test('is made and seen while another transaction holds the lock of the queue, and sidecars can connect meanwhile', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('globex'));
    const { find } = await openCached(url);
    const operations = new Operations({ store: openStore(url), vault, clock: Date.now, audit: () => {} });
    const database = new URL(url).pathname.slice(1);
    // A commit that waits for a standby that does not exist holds the locks of its transaction.
    await postgres.psql(url, `ALTER DATABASE ${database} SET synchronous_commit = local`);
    await holdCommits(postgres, url);
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query('SET synchronous_commit = on');
    await holder.query('BEGIN');
    await holder.query('CREATE TABLE held ()');
    await holder.query('NOTIFY others');
    let isCommitted = false;
    const commit = holder.query('COMMIT').then(() => (isCommitted = true));
    const isHeld = `SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'SyncRep'`;
    await expect.poll(() => postgres.psql(url, isHeld), soon).toBe('1');

    const renames = ['New', 'Newer', 'Newest'].map((name) => operations.rename('globex', name, request));
    await operations.revokeKey('acme', keyId, request);
    await Promise.all(renames);
    await vi.waitFor(
      async () => expect(await find()).toMatchObject({ key: { revokedAt: expect.any(Number) as number } }),
      soon,
    );
    const { directory } = await openDirectory(url);
    expect(directory.state.connected).toBe(true);
    expect(isCommitted).toBe(false);
    await postgres.psql(url, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
    await commit;
    await holder.end();
  }, 20_000);
});
