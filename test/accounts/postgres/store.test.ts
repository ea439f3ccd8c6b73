import { createSecretKey } from 'node:crypto';
import { rmSync } from 'node:fs';
import { Client, Pool } from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { AccountsError } from '../../../src/accounts/accounts-error.ts';
import { createMasterKey } from '../../../src/accounts/master-key.ts';
import { changePool } from '../../../src/accounts/postgres/clients.ts';
import { Operations } from '../../../src/accounts/operations.ts';
import { DailyUseReader } from '../../../src/accounts/postgres/daily-uses.ts';
import { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import { pages } from '../../../src/accounts/postgres/pages.ts';
import { query, type Query } from '../../../src/accounts/postgres/transaction.ts';
import { record, trailLines } from '../../../src/accounts/postgres/trail.ts';
import { maxKeysRead, type AuditEvent, type StoredAccount } from '../../../src/accounts/store.ts';
import { Importer } from '../../../src/accounts/transfer/importer.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Folder } from '../../support/folder.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import {
  changeAll,
  holdCommits,
  keyNamed,
  lockAccount,
  masterKey,
  openStore,
  put,
  storedAccount,
  storedEncryption,
  storedKey,
  vault,
} from './fixtures.ts';

const event: AuditEvent = {
  at: Date.parse('2026-11-01T00:00:00.123Z'),
  actor: 'user:test',
  action: 'account_added',
  account: 'acme',
  details: { environment: 'test', overlap_ms: 1 },
};

describeWithPostgres('the store in PostgreSQL', () => {
  const postgres = usePostgres();

  test('searches of the trail leave a connection for lists, and searches for one account take turns with others', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const holder = new Client({ connectionString: url });
    await holder.connect();
    onTestFinished(() => holder.end());
    await holder.query('BEGIN; LOCK TABLE envelope_sidecar.trail IN ACCESS EXCLUSIVE MODE');
    const ended: string[] = [];
    const searches = ['acme', 'acme', 'acme', 'globex', undefined].map(async (account) => {
      await Array.fromAsync(store.events({ account }));
      ended.push(account ?? 'all');
    });
    expect(await Array.fromAsync(store.list())).toHaveLength(1);
    expect(ended).toEqual([]);
    await holder.query('COMMIT');
    await Promise.all(searches);
    expect(ended).toEqual(['acme', 'acme', 'globex', 'all', 'acme']);
  });

  test('uses of keys are read fifty keys at a time, in turns, and keep neither a list nor a change waiting', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    await postgres.psql(
      url,
      `SET search_path TO envelope_sidecar; ALTER TABLE key_hours RENAME TO hours;
        CREATE FUNCTION slowly() RETURNS SETOF hours LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); END';
        CREATE VIEW key_hours AS SELECT * FROM slowly()`,
    );
    const ended: string[] = [];
    const end = async (what: string, work: Promise<unknown>): Promise<void> => {
      await work;
      ended.push(what);
    };
    const read = (owner: string, keys: number): Promise<void> =>
      end(`${owner} ${keys}`, store.dailyUses(owner, Array(keys).fill('k'), Date.now()));
    // The first read needs a second statement, which comes last.
    const reads = [read('acme', 51), read('acme', 50), read('acme', 49), read('globex', 50)];
    await Promise.all([
      ...reads,
      end('list', Array.fromAsync(store.list())),
      end('change', put(store, storedAccount('globex'))),
    ]);
    const others = ['change', 'list'];
    expect(ended.filter((each) => !others.includes(each))).toEqual(['acme 50', 'globex 50', 'acme 49', 'acme 51']);
    expect(ended.slice(0, -1)).toEqual(expect.arrayContaining(others));
  });

  test('reads for sealing, however many, wait for two queries at most, and an account that cannot be read fails no other read', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    for (const id of ['acme', 'globex', 'odd'])
      await put(store, storedAccount(id, { encryption: { test: storedEncryption(id, 'test') } }));
    await postgres.psql(
      url,
      `SET search_path TO envelope_sidecar; ALTER TABLE previous_uses RENAME TO uses; CREATE SEQUENCE reads;
        UPDATE encryption SET created_at = 'infinity' WHERE account_id = 'odd';
        CREATE FUNCTION slowly() RETURNS SETOF uses LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('envelope_sidecar.reads'), pg_sleep(0.2); END $$;
        CREATE VIEW previous_uses AS SELECT * FROM slowly()`,
    );
    const many = Array.from({ length: 100 }, () => store.readWithoutKeys('acme'));
    const odd = store.readWithoutKeys('odd');
    expect(await store.readWithoutKeys('globex')).toMatchObject({ id: 'globex', keys: [], encryption: { test: {} } });
    await expect(odd).rejects.toMatchObject({ code: 'store_invalid' });
    expect(new Set((await Promise.all(many)).map((account) => account?.id))).toEqual(new Set(['acme']));
    // One query reads acme, and one reads the other accounts.
    expect(await postgres.psql(url, 'SELECT last_value FROM envelope_sidecar.reads')).toBe('2');
  });

  test('uses of keys are read again after a minute or in a new hour, whether there were any or not', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme', { keys: [storedKey(keyNamed('k'), { id: 'used' })] }));
    const insert = `INSERT INTO envelope_sidecar.key_hours VALUES ('used', '2026-11-28T12:00Z', 1)`;
    await postgres.psql(url, insert);
    const pool = new Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    let asked: unknown[] = [];
    const run: Query = (text, values = []) => {
      asked.push(...(values[0] as unknown[]));
      return query(pool, text, values);
    };
    const reader = new DailyUseReader();
    const read = async (now: string, keys = ['used', 'unused']): Promise<readonly [uses: unknown, asked: unknown]> => {
      asked = [];
      const uses = await reader.read(run, keys, Date.parse(now));
      return [[...uses].map(([key, days]) => [key, days.lastIndexOf(1)]), asked];
    };
    const passed = vi.spyOn(performance, 'now');
    onTestFinished(() => passed.mockRestore());
    passed.mockReturnValue(1_000);
    expect(await read('2026-11-29T00:10Z')).toEqual([[['used', 29]], ['used', 'unused']]);
    passed.mockReturnValue(61_000);
    expect(await read('2026-11-29T00:10Z', ['used', 'unused', 'third'])).toEqual([[['used', 29]], ['third']]);
    passed.mockReturnValue(61_001);
    expect(await read('2026-11-29T00:10Z', ['unused', 'third'])).toEqual([[], ['unused']]);
    expect(await read('2026-11-29T13:00Z')).toEqual([[['used', 28]], ['used', 'unused']]);
  });

  test('a search that finds nothing reads a thousand events at a time, so that others have their turns in between', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.trail
        SELECT position, json_build_object('position', position, 'at', '2026-11-01T00:00:00Z', 'actor', 'user:test',
          'action', 'key_issued', 'account', 'acme', 'details', json_build_object())
        FROM generate_series(1, 2500) AS position`,
    );
    const pool = new Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    const lengths: number[] = [];
    const run: Query = async (text, values) => {
      const rows = await query(pool, text, values);
      lengths.push(rows.length);
      return rows as never;
    };
    for (const order of [{}, { after: 0 }]) {
      lengths.length = 0;
      const found = await Array.fromAsync(trailLines(run, { account: 'acme', action: 'key_revoked', ...order }));
      expect([found, lengths]).toEqual([[], [1_000, 1_000, 500]]);
      const all = await Array.fromAsync(trailLines(run, { account: 'acme', action: 'key_issued', ...order }));
      const positions = all.map(({ position }) => Number(position));
      const expected = Array.from({ length: 2_500 }, (_, i) => i + 1);
      expect(positions).toEqual('after' in order ? expected : expected.toReversed());
    }
  });

  test('changes at the same time are made even if the database isolates transactions more strictly by default', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(
      url,
      `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = 'serializable'`,
    );
    const stores = Array.from({ length: 8 }, () => openStore(url));
    const rename = async (store: PostgresStore, i: number): Promise<void> => {
      const operations = new Operations({ store, vault, clock: Date.now, audit: () => {} });
      await operations.add(`a${i}`, 'A', { actor: 'user:test' });
      for (let n = 0; n < 10; n += 1) await operations.rename(`a${i}`, `A ${n}`, { actor: 'user:test' });
    };
    await Promise.all(stores.map(rename));
    expect(await Array.fromAsync(stores[0]?.events({}) ?? [])).toHaveLength(88);
  });

  test('a store makes the changes that wait for a locked account before it closes', async () => {
    const url = await postgres.createDatabase();
    const store = new PostgresStore(url);
    await put(store, storedAccount('acme'));
    const unlock = await lockAccount(url, 'acme');
    const change = put(store, { ...storedAccount('acme'), active: false });
    const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    await expect.poll(() => postgres.psql(url, waiting)).toBe('1');
    // Between two attempts, the change holds no connection.
    await expect.poll(() => postgres.psql(url, waiting)).toBe('0');
    const closed = store.close();
    await unlock();
    await change;
    await closed;
    expect(await openStore(url).read('acme')).toMatchObject({ active: false });
  });

  test.each([
    ['expired', { expiresAt: Date.now() - 1 }],
    ['revoked', { revokedAt: Date.now() - 1 }],
  ])('of an account with more keys than are read, valid keys come before newer ones that are %s', async (_, more) => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const valid = storedKey(keyNamed('valid'), { id: 'valid' });
    const over = Array.from({ length: maxKeysRead }, (_key, i) =>
      storedKey(keyNamed(`over-${i}`), { id: `k${i}`, ...more }),
    );
    await put(store, storedAccount('many', { keys: [valid, ...over] }));
    expect((await store.read('many'))?.keys).toContainEqual(valid);
  });

  test('an account with more keys than a change reads is the same when it is imported again', async () => {
    const url = await postgres.createDatabase();
    const keys = Array.from({ length: maxKeysRead + 1 }, (_, i) => storedKey(keyNamed(`many-${i}`), { id: `k${i}` }));
    const account = storedAccount('many', { keys });
    const importer = new Importer({ store: openStore(url), vault, clock: Date.now }, vault, 'user:test');
    expect(await importer.add([account])).toEqual(['added']);
    expect(await importer.check([account])).toEqual(['unchanged']);
    expect(await importer.add([account])).toEqual(['unchanged']);
    const another = { ...account, keys: [...keys.slice(1), storedKey(keyNamed('another'))] };
    expect(await importer.add([another])).toMatchObject([{ code: 'account_differs' }]);
  });

  test('a change that loses the race for the next position of the trail takes the position after it', async () => {
    const url = await postgres.createDatabase();
    const first = new Client({ connectionString: url });
    await first.connect();
    const add = (account: string) => [{ ...event, account }];
    await first.query('BEGIN');
    await record(async (text, values) => (await first.query(text, values && [...values])).rows, add('first'), {});
    const store = openStore(url);
    const second = store.change(['second'], () => ({ accounts: [], events: add('second'), result: 1 }));
    const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    await expect.poll(() => postgres.psql(url, waiting)).toBe('1');
    const read = async (after: number): Promise<unknown[]> => {
      const events: unknown[] = [];
      for await (const { account, position } of store.events({ after })) events.push([position, account]);
      return events;
    };
    expect(await read(0)).toEqual([]);
    await first.query('COMMIT');
    await first.end();
    expect(await second).toMatchObject({ appended: [{ position: 2, account: 'second' }] });
    expect(await read(0)).toEqual([
      [1, 'first'],
      [2, 'second'],
    ]);
    expect(await read(1)).toEqual([[2, 'second']]);
  });

  describe('a change by hand while the same account is being changed', () => {
    const revoke = "UPDATE envelope_sidecar.api_keys SET revoked_at = '2026-11-01Z'";
    const disable = 'UPDATE envelope_sidecar.encryption SET enabled = false';
    const request = { actor: 'user:test' };
    const nextKey = createMasterKey(createSecretKey(Buffer.alloc(32, 8)));
    const both = new Vault([masterKey, nextKey]);

    /** Carries out `sql` after the account was read and before it is written. */
    async function during(sql: string, change: (operations: Operations) => Promise<unknown>) {
      const url = await postgres.createDatabase();
      const encryption = { test: storedEncryption('acme', 'test') };
      await put(openStore(url), storedAccount('acme', { encryption }));
      const proxy = await postgres.proxy(url);
      proxy.onSent = (data) => {
        if (!data.includes('a.account_id = ANY')) return;
        proxy.onSent = undefined;
        proxy.hold();
      };
      const store = openStore(proxy.url);
      const changing = change(new Operations({ store, vault: both, clock: Date.now, audit: () => {} })).then(
        () => 'done',
        (error: unknown) => (error as AccountsError).code,
      );
      await expect.poll(() => proxy.held).toContain('Account acme');
      await postgres.psql(url, sql);
      proxy.release();
      return { outcome: await changing, account: await openStore(url).read('acme') };
    }

    test('revokes a key for good although it is being rotated', async () => {
      const rotate = (operations: Operations) =>
        operations.rotateKey('acme', storedKey(keyNamed('acme')).id, 0, request);
      const { outcome, account } = await during(revoke, rotate);
      expect(outcome).toBe('key_revoked');
      expect(account?.keys).toMatchObject([{ revokedAt: Date.parse('2026-11-01Z') }]);
    });

    test('disables encryption for good although the master key is being changed', async () => {
      const { outcome, account } = await during(disable, (operations) =>
        operations.rekey(new Vault([nextKey]), request),
      );
      expect(outcome).toBe('done');
      expect(account?.encryption.test?.enabled).toBe(false);
    });

    test('disables encryption for good although its credentials are being replaced', async () => {
      const options = { encoding: undefined, grace: 60_000, replace: true };
      const { outcome, account } = await during(`${disable}, key = NULL, iv = NULL, format = NULL`, (operations) =>
        operations.enableEncryption('acme', 'test', options, request),
      );
      // Encryption is enabled after it was disabled, so the grace period is for plaintext.
      expect({ outcome, previous: account?.encryption.test?.previous?.credentials }).toEqual({ outcome: 'done' });
    });

    test('removes a key although it is being revoked', async () => {
      const remove = 'DELETE FROM envelope_sidecar.api_keys';
      const { outcome, account } = await during(remove, (operations) =>
        operations.revokeKey('acme', storedKey(keyNamed('acme')).id, request),
      );
      expect({ outcome, keys: account?.keys }).toEqual({ outcome: 'key_unknown', keys: [] });
    });

    test('adds encryption although it is being enabled', async () => {
      const add = `INSERT INTO envelope_sidecar.encryption VALUES ('acme', 'live', false, 'base64')`;
      const options = { encoding: undefined, grace: undefined, replace: false };
      const { outcome, account } = await during(add, (operations) =>
        operations.enableEncryption('acme', 'live', options, request),
      );
      expect({ outcome, encoding: account?.encryption.live?.encoding }).toEqual({
        outcome: 'done',
        encoding: 'base64',
      });
    });
  });

  test('returns everything that was written', async () => {
    const store = openStore(await postgres.createDatabase());
    const { credentials } = storedEncryption('acme', 'test');
    const account = storedAccount('acme', {
      name: `Acme "Stores" \\ Ünïcode 🏬`,
      active: false,
      keys: ['z', 'a', 'm'].map((name, i) => {
        return storedKey(keyNamed(name), i === 1 ? { expiresAt: 4_102_444_800_001, revokedAt: 1 } : {});
      }),
      encryption: {
        test: storedEncryption('acme', 'test', {
          encoding: 'base64',
          credentials: { ...credentials, format: 'base64', createdAt: 1_700_000_000_001 },
          previous: {
            credentials: { ...credentials, createdAt: undefined },
            until: 1_800_000_000_001,
            lastUsedAt: undefined,
          },
        }),
        live: {
          enabled: false,
          encoding: 'hex',
          credentials: undefined,
          previous: { credentials: undefined, until: 1_800_000_000_000, lastUsedAt: undefined },
        },
      },
    });
    await put(store, account);
    expect(await store.read('acme')).toEqual(account);
    expect(await store.read('Acme')).toBeUndefined();
    expect(await Array.fromAsync(store.list())).toEqual([account]);
  });

  test('replaces changed parts and removes deleted ones', async () => {
    const store = openStore(await postgres.createDatabase());
    const [first, second, third] = [storedKey(keyNamed('1')), storedKey(keyNamed('2')), storedKey(keyNamed('3'))];
    await put(
      store,
      storedAccount('acme', { keys: [first, second], encryption: { test: storedEncryption('acme', 'test') } }),
    );
    const after = storedAccount('acme', {
      name: 'Other',
      keys: [{ ...second, revokedAt: 5 }, third],
      encryption: { live: storedEncryption('acme', 'live') },
    });
    await put(store, after);
    expect(await store.read('acme')).toEqual(after);
  });

  test('reads a bounded number of keys of one account, and changes any of them', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'), storedAccount('globex'), storedAccount('other'));
    // The key that `put` wrote is the oldest. Of the other keys, every second one is revoked.
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at, revoked_at)
        SELECT 'k' || i, 'acme', 'sk_test_', sha256(i::text::bytea), now(), CASE WHEN i % 2 = 0 THEN now() END
        FROM generate_series(1, 6000) AS i`,
    );
    const oldest = storedKey(keyNamed('acme'));
    const bounds = (account: StoredAccount | undefined) => [
      account?.keys.length,
      account?.keys[0]?.id,
      account?.keys.at(-1)?.id,
    ];
    const newestValid = [2_000, 'k2001', 'k5999'];
    expect(bounds(await store.read('acme'))).toEqual(newestValid);
    expect(bounds((await Array.fromAsync(store.list('', undefined, { now: 0 })))[0])).toEqual(newestValid);
    expect(bounds(await store.findByKey(oldest.hash))).toEqual([2_000, oldest.id, 'k5999']);
    expect(bounds(await store.read('acme', { key: oldest.id }))).toEqual([2_000, oldest.id, 'k5999']);
    // An export has all keys.
    expect((await Array.fromAsync(store.list()))[0]?.keys).toHaveLength(6_001);
    expect((await Array.fromAsync(store.list())).map(({ id }) => id)).toEqual(['acme', 'globex', 'other']);

    const operations = new Operations({ store, vault: new Vault([masterKey]), clock: Date.now, audit: () => {} });
    const request = { actor: 'user:test' };
    expect(await operations.revokeKey('acme', oldest.id, request)).toMatchObject({ state: 'revoked' });
    expect(await operations.showKey('acme', oldest.id)).toMatchObject({ state: 'revoked', revoked_by: 'user:test' });
    // The pages contain each key once, even one that is issued between two pages.
    const listed: string[] = [];
    for (let after: string | null | undefined; after !== null;) {
      const page = await operations.keysPage('acme', 1_000, after);
      listed.push(...page.items.map((key) => key.id));
      if (after === undefined) {
        await postgres.psql(
          url,
          `INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at)
            VALUES ('late', 'acme', 'sk_test_', sha256('late'), now())`,
        );
      }
      after = page.next;
    }
    expect(listed).toEqual([oldest.id, ...Array.from({ length: 6_000 }, (_, i) => `k${i + 1}`), 'late']);
    expect(await operations.keysPage('acme', 1_000, 'late')).toMatchObject({ items: [], next: null });
    await expect(operations.keysPage('acme', 10, 'none')).rejects.toMatchObject({ code: 'key_unknown' });
    await expect(operations.keysPage('none', 10, undefined)).rejects.toMatchObject({ code: 'account_unknown' });
    // A key of one account is unknown in another account.
    await expect(operations.keysPage('globex', 10, 'late')).rejects.toMatchObject({ code: 'key_unknown' });
    await postgres.psql(url, `DELETE FROM envelope_sidecar.api_keys WHERE key_id = 'late'`);
    await expect(operations.rotateKey('acme', 'k1', 0, request)).rejects.toMatchObject({ code: 'too_many_keys' });
    const count = 'SELECT count(*), count(*) FILTER (WHERE revoked_at IS NULL) FROM envelope_sidecar.api_keys';
    expect(await postgres.psql(url, `${count} WHERE account_id = 'acme'`)).toBe('6001|3000');
  });

  test('ends a page of accounts early if they have many keys', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), ...['a', 'b', 'c', 'd'].map((id) => storedAccount(id, { keys: [] })));
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at)
        SELECT account_id || i, account_id, 'sk_test_', sha256((account_id || i)::bytea), now()
        FROM envelope_sidecar.accounts, generate_series(1, 1500) AS i WHERE account_id < 'd'`,
    );
    const read: string[][] = [];
    const run: Query = async (text, values) => (await pool.query(text, values && [...values])).rows;
    const pool = new Pool({ connectionString: url });
    onTestFinished(() => pool.end());
    for await (const rows of pages(run)) read.push(rows.map(({ account_id: id }) => id));
    expect(read).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ]);
  });

  test('lists all of many accounts that a selection finds by their keys or by their encryption, even with a search', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const old = Date.parse('2026-01-01T00:00:00Z');
    const now = Date.parse('2026-11-01T00:00:00Z');
    const enabled = storedEncryption('n', 'test');
    const encryption = { test: { ...enabled, credentials: { ...enabled.credentials, createdAt: old } } };
    const ids = Array.from({ length: 2_400 }, (_, i) => `n${String(i).padStart(4, '0')}`);
    await put(store, ...ids.map((id, i) => storedAccount(id, { keys: [], encryption: i % 3 === 0 ? encryption : {} })));
    // Of every six accounts, one has both a due key and due credentials, one has only due credentials, and one has only a due key.
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at)
        SELECT account_id, account_id, 'sk_test_', sha256(account_id::bytea), '2026-01-01'
        FROM envelope_sidecar.accounts WHERE substr(account_id, 2)::integer % 6 IN (0, 1)`,
    );
    const due = ids.filter((_, i) => [0, 1, 3].includes(i % 6));
    const found = async (search?: string, after?: string): Promise<string[]> =>
      (await Array.fromAsync(store.list(after, undefined, { anyOf: ['due', 'expiring'], search, now }))).map(
        ({ id }) => id,
      );
    expect(await found()).toEqual(due);
    expect(await found(undefined, 'n0600')).toEqual(due.filter((id) => id > 'n0600'));
    expect(await found('7')).toEqual(due.filter((id) => id.includes('7')));
  });

  test('lists many accounts sorted by the bytes of their ids, starting after any of them', async () => {
    const store = openStore(await postgres.createDatabase());
    const ids = ['B', 'a', '_x', '.x', '-x', 'Z9', ...Array.from({ length: 1_200 }, (_, i) => `n${i}`)];
    await put(store, ...ids.map((id) => storedAccount(id, { keys: [] })));
    const sorted = ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect((await Array.fromAsync(store.list())).map(({ id }) => id)).toEqual(sorted);
    expect((await Array.fromAsync(store.list('Z9'))).map(({ id }) => id)).toEqual(
      sorted.slice(sorted.indexOf('Z9') + 1),
    );
    expect(await Array.fromAsync(store.list(sorted.at(-1)))).toEqual([]);
  });

  test('serializes changes to one account across connections', async () => {
    const url = await postgres.createDatabase();
    const stores = [openStore(url), openStore(url)];
    await put(openStore(url), storedAccount('acme', { keys: [] }));
    const add = (name: string, store: PostgresStore): Promise<unknown> =>
      store.change(['acme'], (existing) => {
        const account = existing.get('acme') ?? storedAccount('acme', { keys: [] });
        const keys = [...account.keys, storedKey(keyNamed(name))];
        return { accounts: [{ ...account, keys }], events: [], result: undefined };
      });
    await Promise.all(Array.from({ length: 20 }, (_, i) => add(`k${i}`, stores[i % 2] ?? openStore(url))));
    expect((await openStore(url).read('acme'))?.keys).toHaveLength(20);
  });

  test('repeats the decision if two add the same account at the same time, so that the second sees the first', async () => {
    const url = await postgres.createDatabase();
    const seen: boolean[] = [];
    const add = (store: PostgresStore): Promise<unknown> =>
      store.change(['acme'], (existing) => {
        seen.push(existing.has('acme'));
        const accounts = existing.has('acme') ? [] : [storedAccount('acme')];
        return { accounts, events: [], result: undefined };
      });
    await Promise.all(Array.from({ length: 8 }, () => add(openStore(url))));
    expect(seen.filter((each) => each)).toHaveLength(7);
  });

  test('does not deadlock if changes name the same accounts in different order', async () => {
    const url = await postgres.createDatabase();
    const ids = Array.from({ length: 30 }, (_, i) => `a${i}`);
    await put(openStore(url), ...ids.map((id) => storedAccount(id, { keys: [] })));
    const rename = (order: readonly string[], name: string): Promise<unknown> =>
      openStore(url).change(order, (existing) => {
        const accounts = order.map((id) => storedAccount(id, { keys: existing.get(id)?.keys ?? [], name }));
        return { accounts, events: [], result: undefined };
      });
    await Promise.all(Array.from({ length: 10 }, (_, i) => rename(i % 2 === 0 ? ids : ids.toReversed(), `round ${i}`)));
    expect(new Set((await Array.fromAsync(openStore(url).list())).map(({ name }) => name)).size).toBe(1);
  });

  test.each([
    ['id', storedKey(keyNamed('other'), { id: storedKey(keyNamed('acme')).id })],
    ['hash', { ...storedKey(keyNamed('acme')), id: 'another-id' }],
  ])('refuses a key whose %s belongs to another account, and changes nothing', async (_what, key) => {
    const store = openStore(await postgres.createDatabase());
    await put(store, storedAccount('acme'));
    await expect(
      put(store, storedAccount('first', { keys: [] }), storedAccount('globex', { keys: [key] })),
    ).rejects.toMatchObject({
      code: 'key_exists',
      message: expect.not.stringContaining(key.hash),
    });
    expect((await Array.fromAsync(store.list())).map(({ id }) => id)).toEqual(['acme']);
  });

  test('rethrows the error of the decision, and changes nothing', async () => {
    const store = openStore(await postgres.createDatabase());
    const failure = new TypeError('mine');
    const change = store.change(['acme'], () => {
      throw failure;
    });
    await expect(change).rejects.toBe(failure);
    expect(await store.read('acme')).toBeUndefined();
  });

  test('records a change as a line of the trail', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const decide = () => ({ accounts: [storedAccount('acme')], events: [event], result: undefined });
    await store.change(['acme'], decide);
    const trail = await postgres.psql(url, `SELECT position, line FROM envelope_sidecar.trail`);
    expect(trail).toBe(
      '1|{"position":1,"at":"2026-11-01T00:00:00.123Z","actor":"user:test","action":"account_added","account":"acme",' +
        `"details":{"environment":"test","overlap_ms":1},"prev":"${'0'.repeat(64)}"}`,
    );
  });

  test('makes a requested change once, and returns its receipt to repeats', async () => {
    const url = await postgres.createDatabase();
    let decided = 0;
    const request = (store: PostgresStore, digest = 'aa') =>
      store.change(
        ['acme'],
        () => {
          decided += 1;
          return { accounts: [storedAccount('acme')], events: [event], result: 'secret', receipt: '{"id":"acme"}' };
        },
        { key: 'once', request: digest },
      );
    const responses = await Promise.all([request(openStore(url)), request(openStore(url)), request(openStore(url))]);
    expect(responses.map(({ outcome }) => outcome).toSorted()).toEqual(['changed', 'repeated', 'repeated']);
    expect(responses.find(({ outcome }) => outcome === 'repeated')).toEqual({
      outcome: 'repeated',
      receipt: '{"id":"acme"}',
    });
    expect(decided).toBe(1);
    await expect(request(openStore(url), 'bb')).rejects.toMatchObject({ code: 'idempotency_key_reused' });
    expect(await postgres.psql(url, `SELECT count(*) FROM envelope_sidecar.trail`)).toBe('1');
    expect(await postgres.psql(url, `SELECT * FROM envelope_sidecar.receipts`)).not.toContain('secret');
  });

  test('keeps no receipts of refused changes, and deletes old ones', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const once = { key: 'once', request: 'aa' };
    const refuse = (): never => {
      throw new Error('refused');
    };
    await expect(store.change(['acme'], refuse, once)).rejects.toThrow('refused');
    const decision = { accounts: [], events: [], result: 1, receipt: 'r' };
    expect(await store.change(['acme'], () => decision, once)).toMatchObject({ outcome: 'changed', result: 1 });
    await postgres.psql(url, `UPDATE envelope_sidecar.receipts SET made_at = now() - interval '25 hours'`);
    expect(await store.change(['acme'], () => decision, { ...once, key: 'b' })).toMatchObject({ outcome: 'changed' });
    expect(await store.change(['acme'], () => decision, once)).toMatchObject({ outcome: 'repeated' });
    await postgres.psql(url, `UPDATE envelope_sidecar.receipts SET made_at = now() - interval '49 hours'`);
    expect(await store.change(['acme'], () => decision, once)).toMatchObject({ outcome: 'changed' });
    expect(await postgres.psql(url, `SELECT count(*) FROM envelope_sidecar.receipts`)).toBe('1');
  });

  test('rewrites all accounts, or none if one cannot be rewritten, and counts the changed ones in events of fifty', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, ...Array.from({ length: 1_100 }, (_, i) => storedAccount(`a${i}`)));
    const rename = (account: StoredAccount): StoredAccount =>
      account.id === 'a7' ? account : { ...account, name: 'New' };
    expect(await changeAll(store, rename, { ...event, account: undefined })).toBe(1_099);
    let count = 0;
    const fail = (account: StoredAccount): StoredAccount => {
      count += 1;
      if (count === 1_000) throw new Error('no more');
      return { ...account, name: 'Newer' };
    };
    await expect(changeAll(store, fail, event)).rejects.toThrow('no more');
    const names = (await Array.fromAsync(store.list())).map(({ name }) => name);
    expect(names.filter((name) => name === 'New')).toHaveLength(1_099);
    const counts = `SELECT count(*), sum((line::jsonb #>> '{details,accounts}')::int) FROM envelope_sidecar.trail`;
    expect(await postgres.psql(url, counts)).toBe('22|1099');
    // No account is left to be renamed.
    expect(await changeAll(store, rename, { ...event, account: undefined })).toBe(0);
    expect(await postgres.psql(url, counts)).toBe('23|1099');
  });

  test('reports the parts of a rekey that are stored although a later one fails', async () => {
    const url = await postgres.createDatabase();
    const encrypted = (id: string) => storedAccount(id, { encryption: { test: storedEncryption(id, 'test') } });
    await put(openStore(url), ...Array.from({ length: 60 }, (_, i) => encrypted(`a${i + 10}`)));
    const reported: unknown[] = [];
    const next = createMasterKey(createSecretKey(Buffer.alloc(32, 8)));
    const operations = new Operations({
      store: openStore(url),
      vault: new Vault([masterKey, next]),
      clock: Date.now,
      audit: (made) => reported.push(made),
    });
    const rekey = () => operations.rekey(new Vault([next]), { actor: 'user:ana' });
    const other = new Client({ connectionString: url });
    await other.connect();
    await other.query(`BEGIN; SELECT 1 FROM envelope_sidecar.accounts WHERE account_id = 'a69' FOR UPDATE`);
    await expect(rekey()).rejects.toMatchObject({ code: 'store_locked' });
    expect(reported).toMatchObject([{ position: 1, details: { accounts: 50 } }]);
    await other.end();
    expect(await rekey()).toBe(10);
    expect(reported).toMatchObject([{ position: 1 }, { position: 2, details: { accounts: 10 } }]);
  });

  test('keeps the changes that others make while all accounts are rewritten', async () => {
    const url = await postgres.createDatabase();
    const [one, other] = [openStore(url), openStore(url)];
    await put(one, ...Array.from({ length: 600 }, (_, i) => storedAccount(`a${i}`, { keys: [] })));
    const append = (text: string) => (account: StoredAccount) => ({ ...account, name: `${account.name}${text}` });
    const rewriting = changeAll(one, append('!'), event);
    const changing = Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        other.change([`a${i}`], (existing) => {
          return { accounts: [...existing.values()].map(append('?')), events: [], result: undefined };
        }),
      ),
    );
    await Promise.all([rewriting, changing]);
    const names = (await Array.fromAsync(one.list())).map(({ name }) => name.replace(/^[^!?]*/, ''));
    expect(names.filter((end) => end === '!?' || end === '?!')).toHaveLength(50);
    expect(names.filter((end) => end === '!')).toHaveLength(550);
  });

  test('accepts neither credentials in the clear nor an account without a name', async () => {
    const store = openStore(await postgres.createDatabase());
    const credentials = { key: 'k'.repeat(32), iv: 'i'.repeat(16), format: 'text', createdAt: undefined } as const;
    const clear = storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test', { credentials }) } });
    await expect(put(store, clear)).rejects.toMatchObject({ code: 'store_invalid' });
    await expect(put(store, storedAccount('acme', { name: '' }))).rejects.toMatchObject({ code: 'store_invalid' });
  });
});

describeWithPostgres('the store in PostgreSQL during a failure of the database', () => {
  const postgres = usePostgres();
  const add = (store: PostgresStore) =>
    store.change(['acme'], () => ({ accounts: [storedAccount('acme')], events: [event], result: 'done' }));
  /** SQL that counts the waiting commits. */
  const committing = `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%COMMIT' AND wait_event = 'SyncRep'`;
  /** Sets a parameter of the running server. */
  const configure = async (url: string, setting: string): Promise<void> => {
    await postgres.psql(url, `ALTER SYSTEM SET ${setting}`);
    await postgres.psql(url, 'SELECT pg_reload_conf()');
  };

  test.each([
    'BEGIN',
    'FOR NO KEY UPDATE',
    'INSERT INTO envelope_sidecar.accounts',
    'INSERT INTO envelope_sidecar.trail',
  ])('changes nothing if the connection is lost before %s', async (statement) => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(proxy.url);
    proxy.onSent = (data) => {
      if (data.includes(statement)) proxy.cut();
    };
    await expect(add(store)).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(await openStore(url).read('acme')).toBeUndefined();
    proxy.onSent = undefined;
    proxy.mend();
    expect(await add(store)).toMatchObject({ outcome: 'changed', result: 'done' });
  });

  test('recognises a commit whose response was lost', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(proxy.url);
    proxy.onSent = (data) => {
      if (!data.includes('COMMIT\0')) return;
      proxy.onSent = undefined;
      proxy.mute();
      setTimeout(() => proxy.mend(), 50);
    };
    expect(await add(store)).toMatchObject({ outcome: 'changed', result: 'done' });
    expect(await openStore(url).read('acme')).toMatchObject({ id: 'acme' });
  });

  test('recognises commits whose responses were lost on all connections at once', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(proxy.url);
    const release = await holdCommits(postgres, url);
    const changes = ['a', 'b'].map((id) =>
      store.change([id], () => ({ accounts: [storedAccount(id)], events: [], result: 'done' })),
    );
    // The second change is retried without a notification, because the first one holds the lock for notifications.
    await expect.poll(() => postgres.psql(url, committing), { timeout: 10_000 }).toBe(`${changes.length}`);
    proxy.cut();
    await release();
    proxy.mend();
    expect(await Promise.all(changes)).toMatchObject([{ outcome: 'changed' }, { outcome: 'changed' }]);
  });

  test('changes by tokens of accounts hold no connection that operators need for urgent changes', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const release = await holdCommits(postgres, url);
    const changes = ['a', 'b', 'c'].map((id) => {
      const decide = () => ({ accounts: [storedAccount(id)], events: [], result: 'done' });
      return store.change([id], decide, undefined, { urgent: true, ofAccount: true });
    });
    await expect.poll(() => postgres.psql(url, committing), { timeout: 10_000 }).toBe('2');
    expect(await store.read('a', { urgent: true })).toBeUndefined();
    await release();
    expect(await Promise.all(changes)).toMatchObject(changes.map(() => ({ outcome: 'changed' })));
  });

  test('does not reuse a connection whose commit got no response', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(`${proxy.url}?query_timeout=2000`);
    proxy.onSent = (data) => {
      if (!data.includes('COMMIT\0')) return;
      proxy.onSent = undefined;
      proxy.hold();
    };
    const added = add(store);
    await expect.poll(() => proxy.held, { timeout: 10_000 }).toContain('COMMIT\0');
    // The held bytes are never forwarded; the connection stays open.
    proxy.swallowNotifications();
    expect(await added).toMatchObject({ outcome: 'changed', result: 'done' });
    expect(proxy.connections).toBe(2);
    await expect.poll(() => proxy.open).toBe(1);
    expect(await add(store)).toMatchObject({ outcome: 'changed', result: 'done' });
  });

  test('fails, and reports the file, if a certificate that its URL names cannot be read', async () => {
    const url = await postgres.createDatabase();
    await expect(add(openStore(`${url}&sslmode=verify-full&sslrootcert=/nowhere/ca.crt`))).rejects.toMatchObject({
      code: 'store_unavailable',
      message: 'the database cannot be reached (cannot read /nowhere/ca.crt: ENOENT)',
    });
  });

  test('fails if a certificate disappears while work waits for a connection, and works again once it is back', async () => {
    const folder = new Folder({ 'ca.crt': '' });
    const ca = folder.file('ca.crt');
    const pool = await changePool(`${await postgres.createDatabase()}&sslmode=disable&sslrootcert=${ca}`, 1);
    onTestFinished(() => pool.end());
    const lost = await pool.connect();
    const waiting = [1, 2].map(() => query(pool, 'SELECT 1'));
    rmSync(ca);
    lost.release(true);
    for (const failed of waiting) await expect(failed).rejects.toThrow(`cannot read ${ca}: ENOENT`);
    folder.write({ 'ca.crt': '' });
    expect(await query(pool, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('recognises that a commit never arrived', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(proxy.url);
    proxy.onSent = (data) => {
      if (!data.includes('COMMIT\0')) return;
      proxy.onSent = undefined;
      proxy.cut();
      setTimeout(() => proxy.mend(), 50);
    };
    await expect(add(store)).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(await openStore(url).read('acme')).toBeUndefined();
  });

  test('reports an unknown outcome of a commit if it cannot reconnect to ask', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const store = openStore(proxy.url);
    proxy.onSent = (data) => {
      if (data.includes('COMMIT\0')) proxy.cut();
    };
    await expect(add(store)).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining('may have been made'),
    });
  });

  const rename = (account: StoredAccount): StoredAccount => ({ ...account, name: 'New' });

  test.each(['a rewritten account', 'the event of a rewrite'])(
    'recognises a commit of %s whose response was lost',
    async (what) => {
      const url = await postgres.createDatabase();
      const proxy = await postgres.proxy(url);
      await put(openStore(url), storedAccount('acme'));
      let commits = 0;
      proxy.onSent = (data) => {
        if (!data.includes('COMMIT\0')) return;
        commits += 1;
        if (commits !== (what === 'a rewritten account' ? 1 : 2)) return;
        proxy.mute();
        setTimeout(() => proxy.mend(), 50);
      };
      expect(await changeAll(openStore(proxy.url), rename, event)).toBe(1);
      expect(await openStore(url).read('acme')).toMatchObject({ name: 'New' });
      expect(await postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.trail')).toBe('1');
    },
  );

  test.each([
    ['a change', add],
    ['a rewritten account', (store: PostgresStore) => changeAll(store, rename, event)],
  ])(
    'does not mistake the commit of another transaction for the commit of %s that was lost in a crash',
    async (_, change) => {
      const url = await postgres.createDatabase();
      await put(openStore(url), storedAccount('before'));
      // By default, transaction ids are on the disk after 200 ms, so the server would not assign them again after the crash.
      await configure(url, `wal_writer_delay = '10s'`);
      const proxy = await postgres.proxy(url);
      const sent = Promise.withResolvers<void>();
      proxy.onSent = (data) => {
        if (!data.includes('COMMIT\0')) return;
        proxy.onSent = undefined;
        proxy.freeze();
        sent.resolve();
      };
      const changed = change(openStore(proxy.url)).catch((error: unknown) => error);
      await sent.promise;
      await postgres.stop();
      await postgres.start();
      await put(openStore(url), storedAccount('other'));
      proxy.mend();
      expect(await changed).toMatchObject({ code: 'store_unavailable' });
      expect((await Array.fromAsync(openStore(url).list())).map(({ id, name }) => [id, name])).toEqual([
        ['before', storedAccount('before').name],
        ['other', storedAccount('other').name],
      ]);
    },
  );

  test('applies a change fully or not at all if the server crashes', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const accounts = Array.from({ length: 500 }, (_, i) => storedAccount(`a${i}`));
    await put(store, storedAccount('before'));
    const changes = Array.from({ length: 20 }, (_, i) =>
      put(store, ...accounts.slice(i * 25, i * 25 + 25)).then(
        () => 'changed',
        (error: unknown) => error,
      ),
    );
    await changes[0];
    // Make sure that at least one change is in progress, by making it wait for a locked account.
    const locked = `BEGIN; SELECT FROM envelope_sidecar.accounts WHERE account_id = 'before' FOR UPDATE; SELECT pg_sleep(60)`;
    postgres.psql(url, locked).catch(() => {});
    const sleeping = `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND wait_event = 'PgSleep'`;
    await vi.waitFor(async () => expect(await postgres.psql(url, sleeping)).toBe('1'), 5_000);
    const blocked = put(openStore(url), storedAccount('before', { name: 'After' }), storedAccount('blocked')).then(
      () => 'changed',
      (error: unknown) => error,
    );
    const waiting = `SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
    await vi.waitFor(async () => expect(await postgres.psql(url, waiting)).toBe('t'), 5_000);
    await postgres.stop();
    await postgres.start();
    expect(await blocked).toMatchObject({ code: 'store_unavailable' });
    const outcomes = await Promise.all(changes);
    expect(await openStore(url).read('blocked')).toBeUndefined();
    const stored = new Set((await Array.fromAsync(openStore(url).list())).map(({ id }) => id));
    for (const [i, outcome] of outcomes.entries()) {
      const present = accounts.slice(i * 25, i * 25 + 25).filter(({ id }) => stored.has(id));
      expect(present).toHaveLength(outcome === 'changed' ? 25 : 0);
      if (outcome !== 'changed') expect(outcome).toMatchObject({ code: 'store_unavailable' });
    }
  });

  test('reports each error in one line, without the password', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(
      url,
      `CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA envelope_sidecar TO reader;
      GRANT SELECT ON ALL TABLES IN SCHEMA envelope_sidecar TO reader`,
    );
    const codeOf = async (at: string): Promise<unknown> => {
      const error: unknown = await add(openStore(at)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ name: 'AccountsError', message: expect.stringMatching(/^[^\n]*$/) });
      expect(String(error)).not.toContain('hunter2');
      return (error as { code?: unknown }).code;
    };
    const reader = url.replace('user=postgres', 'user=reader&password=hunter2');
    expect(await codeOf(reader)).toBe('store_read_only');
    await postgres.psql(
      url,
      `ALTER ROLE reader SET default_transaction_read_only = on;
      GRANT ALL ON ALL TABLES IN SCHEMA envelope_sidecar TO reader`,
    );
    expect(await codeOf(reader)).toBe('store_read_only');
    expect(await codeOf(url.replace('user=postgres', 'user=nobody&password=hunter2'))).toBe('store_unavailable');
    expect(await codeOf(url.replace(/\/test\d+/, '/missing'))).toBe('store_unavailable');
    expect(await codeOf('postgres://postgres:hunter2@127.0.0.1:1/x')).toBe('store_unavailable');
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    expect(await codeOf(url)).toBe('store_invalid');
  });
});
