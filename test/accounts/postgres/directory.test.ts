import { LRUCache } from 'lru-cache';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { EnvelopeCodec } from '../../../src/envelope/codec.ts';
import type { Encoding } from '../../../src/envelope/encoding.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openDirectory, openStore, put, storedAccount, storedEncryption, storedKey } from './fixtures.ts';
import { enabledOf } from '../../support/sidecar.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

/** How long a change through another connection may take to be seen. */
const oneSecond = { timeout: 1_000, interval: 5 };

/** A codec with this encoding. */
function codecIn(encoding: Encoding): unknown {
  return expect.toSatisfy((codec: EnvelopeCodec) => codec.pack().encoding === encoding);
}

describeWithPostgres('the directory in PostgreSQL', () => {
  const postgres = usePostgres();

  test('finds a key with its account, and reports unknown keys as such', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } }));
    const { directory, monitor } = await openDirectory(url);
    const holder = await directory.find(sha256Hex(keyNamed('acme')));
    expect(holder).toMatchObject({
      account: {
        id: 'acme',
        name: 'Account acme',
        active: true,
        encryption: { test: { current: codecIn('hex') } },
      },
      key: { id: 'id-acmexxxxxxxxxxxx', prefix: 'sk_test_', createdAt: Date.parse('2026-11-01T00:00:00.123Z') },
    });
    expect(await directory.find(sha256Hex(keyNamed('nobody')))).toBeUndefined();
    expect(monitor.lookups).toEqual(['found', 'unknown']);
  });

  test('looks a key up once for any number of concurrent requests, then serves it from the cache', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory, monitor } = await openDirectory(url);
    const before = monitor.queries;
    const found = await Promise.all(
      Array.from({ length: 50 }, async () => directory.find(sha256Hex(keyNamed('acme')))),
    );
    expect(new Set(found).size).toBe(1);
    expect(directory.find(sha256Hex(keyNamed('acme')))).toBe(found[0]);
    expect(monitor.queries - before).toBe(1);
  });

  test('reports each change of a cached account once, however many keys it has', async () => {
    const url = await postgres.createDatabase();
    const names = ['one', 'two'];
    const keys = names.map((name) => storedKey(keyNamed(name)));
    const store = openStore(url);
    await put(store, storedAccount('acme', { keys }));
    const { directory, monitor } = await openDirectory(url);
    const findBoth = (): Promise<unknown> =>
      Promise.all(names.map(async (name) => directory.find(sha256Hex(keyNamed(name)))));
    await findBoth();
    expect(monitor.changes).toEqual([]);
    const [one, ...others] = keys;
    if (one === undefined) throw new Error('no key');
    await put(store, storedAccount('acme', { active: false, keys: [{ ...one, revokedAt: 1_000 }, ...others] }));
    await vi.waitFor(async () => {
      await findBoth();
      expect(monitor.changes).toEqual([
        { account: 'acme', change: 'account_deactivated' },
        { account: 'acme', change: 'key_revoked', key: one.id },
      ]);
    }, oneSecond);
    await put(store, storedAccount('acme', { active: true, keys: [{ ...one, revokedAt: 1_000 }, ...others] }));
    await vi.waitFor(async () => {
      await findBoth();
      expect(monitor.changes.slice(2)).toEqual([{ account: 'acme', change: 'account_activated' }]);
    }, oneSecond);
  });

  test('is notified of every kind of change by SQL within a second', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'), storedAccount('globex'));
    const { directory } = await openDirectory(url);
    const find = async (name: string): Promise<unknown> => directory.find(sha256Hex(keyNamed(name)));
    await find('globex');
    const encryption = storedEncryption('acme', 'live').credentials;
    const steps: readonly (readonly [sql: string, seen: object | undefined])[] = [
      ['UPDATE accounts SET active = false', { account: { active: false } }],
      [`UPDATE accounts SET name = 'New' WHERE account_id = 'acme'`, { account: { name: 'New' } }],
      ['UPDATE api_keys SET revoked_at = to_timestamp(9)', { key: { revokedAt: 9_000 } }],
      [
        `INSERT INTO encryption (account_id, environment, enabled, encoding, key, iv, format)
          VALUES ('acme', 'live', true, 'base64', '${encryption?.key}', '${encryption?.iv}', 'text')`,
        { account: { encryption: { live: { current: codecIn('base64') } } } },
      ],
      [`UPDATE encryption SET encoding = 'hex'`, { account: { encryption: { live: { current: codecIn('hex') } } } }],
      ['DELETE FROM encryption', { account: { encryption: {} } }],
      [`UPDATE api_keys SET account_id = 'globex' WHERE account_id = 'acme'`, { account: { id: 'globex' } }],
      ['DELETE FROM api_keys', undefined],
    ];
    for (const [sql, seen] of steps) {
      await find('acme');
      await postgres.psql(url, `SET search_path TO envelope_sidecar; ${sql}`);
      await vi.waitFor(async () => {
        const found = await find('acme');
        if (seen === undefined) expect(found).toBeUndefined();
        else expect(found).toMatchObject(seen);
      }, oneSecond);
    }
  });

  test('is notified of changes in a session that fires no ordinary triggers', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory } = await openDirectory(url);
    const find = async (): Promise<unknown> => directory.find(sha256Hex(keyNamed('acme')));
    for (const [sql, seen] of [
      ['UPDATE accounts SET active = false', { account: { active: false } }],
      ['UPDATE api_keys SET revoked_at = to_timestamp(9)', { key: { revokedAt: 9_000 } }],
    ] as const) {
      await find();
      await postgres.psql(url, `SET session_replication_role = replica; SET search_path TO envelope_sidecar; ${sql}`);
      await vi.waitFor(async () => expect(await find()).toMatchObject(seen), oneSecond);
    }
    const modes = `SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgname LIKE 'announce%'`;
    expect(await postgres.psql(url, modes)).toBe('A');
  });

  describe('without any notification', () => {
    const [acme, globex] = [sha256Hex(keyNamed('acme')), sha256Hex(keyNamed('globex'))];

    async function openSilent() {
      const url = await postgres.createDatabase();
      await put(openStore(url), storedAccount('acme'));
      await postgres.psql(
        url,
        `SET search_path TO envelope_sidecar; ALTER TABLE accounts DISABLE TRIGGER USER; ALTER TABLE api_keys DISABLE TRIGGER USER`,
      );
      let now = 1_000_000;
      const { directory, monitor } = await openDirectory(url, { monotonic: () => now });
      await directory.find(acme);
      await directory.find(globex);
      await put(openStore(url), storedAccount('acme', { active: false }), storedAccount('globex'));
      monitor.lookups.length = 0;
      return { directory, monitor, pass: (time: number) => (now += time) };
    }

    test('reads a key again after a minute at most, whether it existed or not', async () => {
      const { directory, monitor, pass } = await openSilent();
      pass(59_999);
      expect(directory.find(globex)).toBeUndefined();
      expect([directory.holds(acme), directory.holds(globex)]).toEqual([true, true]);
      pass(1);
      expect([directory.holds(acme), directory.holds(globex)]).toEqual([false, false]);
      expect(await directory.find(acme)).toMatchObject({ account: { active: false } });
      expect(await directory.find(globex)).toMatchObject({ account: { id: 'globex' } });
      expect(monitor.lookups).toEqual(['cached_unknown', 'found', 'found']);
    });

    test('reads a key in use again after half a minute, while no request waits', async () => {
      const { directory, monitor, pass } = await openSilent();
      pass(29_999);
      const before = monitor.queries;
      expect(directory.find(acme)).toMatchObject({ account: { active: true } });
      expect(monitor.queries).toBe(before);
      pass(1);
      await vi.waitFor(() => {
        expect(directory.find(acme)).toMatchObject({ account: { active: false } });
      }, oneSecond);
      expect(new Set(monitor.lookups)).toEqual(new Set(['cached']));
    });
  });

  test('finds a new key that was looked up before it existed', async () => {
    const url = await postgres.createDatabase();
    const { directory, monitor } = await openDirectory(url);
    const hash = sha256Hex(keyNamed('acme'));
    await directory.find(hash);
    expect(directory.find(hash)).toBeUndefined();
    expect(monitor.lookups).toEqual(['unknown', 'cached_unknown']);
    await put(openStore(url), storedAccount('acme'));
    await vi.waitFor(
      async () => expect(await directory.find(hash)).toMatchObject({ account: { id: 'acme' } }),
      oneSecond,
    );
  });

  test('is notified of more accounts in one statement than one notification can name', async () => {
    const url = await postgres.createDatabase();
    const ids = Array.from({ length: 450 }, (_, i) => `${'long-'.repeat(11)}${i}`);
    await put(openStore(url), ...ids.map((id) => storedAccount(id, { keys: [] })), storedAccount('zz'));
    const { directory } = await openDirectory(url);
    await directory.find(sha256Hex(keyNamed('zz')));
    await postgres.psql(url, 'UPDATE envelope_sidecar.accounts SET active = false');
    await vi.waitFor(async () => {
      expect(await directory.find(sha256Hex(keyNamed('zz')))).toMatchObject({ account: { active: false } });
    }, oneSecond);
  });

  test('is notified when a table is emptied', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory } = await openDirectory(url);
    await directory.find(sha256Hex(keyNamed('acme')));
    await postgres.psql(url, 'TRUNCATE envelope_sidecar.accounts CASCADE');
    await vi.waitFor(async () => expect(await directory.find(sha256Hex(keyNamed('acme')))).toBeUndefined(), oneSecond);
  });

  test('notices tables that a restore in place has created, although the changes in them have higher numbers', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory } = await openDirectory(url);
    const hash = sha256Hex(keyNamed('acme'));
    expect(await directory.find(hash)).toMatchObject({ account: { active: true } });
    // Do as `pg_restore --clean` does, which creates the triggers after the rows.
    await postgres.psql(
      url,
      `BEGIN;
       CREATE TABLE envelope_sidecar.restored (LIKE envelope_sidecar.accounts INCLUDING ALL);
       INSERT INTO envelope_sidecar.restored SELECT * FROM envelope_sidecar.accounts;
       UPDATE envelope_sidecar.restored SET active = false;
       ALTER TABLE envelope_sidecar.accounts RENAME TO dropped;
       ALTER TABLE envelope_sidecar.restored RENAME TO accounts;
       INSERT INTO envelope_sidecar.changes (announced) VALUES (true);
       COMMIT;`,
    );
    await vi.waitFor(
      async () => {
        expect(await directory.find(hash)).toMatchObject({ account: { active: false } });
      },
      { ...oneSecond, timeout: 5_000 },
    );
  });

  test('does not cache a key that changed while it was read', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const proxy = await postgres.proxy(url);
    const { directory } = await openDirectory(proxy.url);
    proxy.hold();
    const before = directory.find(sha256Hex(keyNamed('acme')));
    await vi.waitFor(() => expect(proxy.held).toContain('Account acme'));
    await put(store, storedAccount('acme', { active: false }));
    await vi.waitFor(() => expect(proxy.held).toContain('envelope_sidecar_accounts\0acme'));
    proxy.release();
    expect(await before).toMatchObject({ account: { active: true } });
    expect(await directory.find(sha256Hex(keyNamed('acme')))).toMatchObject({ account: { active: false } });
  });

  test.each([
    ['a key of another account', 'globex', true],
    ['that a key is unknown (it may belong to the changed account)', 'nobody', false],
  ])('while an account changes, caches %s: %s', async (_, name, isCached) => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    for (const id of ['acme', 'globex']) await put(store, storedAccount(id));
    const proxy = await postgres.proxy(url);
    const { directory } = await openDirectory(proxy.url);
    const hash = sha256Hex(keyNamed(name));
    proxy.hold();
    const found = directory.find(hash);
    await vi.waitFor(() => expect(proxy.held).not.toBe(''));
    await put(store, storedAccount('acme', { active: false }));
    await vi.waitFor(() => expect(proxy.held).toContain('envelope_sidecar_accounts\0acme'));
    proxy.release();
    await found;
    expect(directory.holds(hash)).toBe(isCached);
  });

  test('reports no failure if it is closed while a key is being read', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    const { directory, monitor } = await openDirectory(proxy.url);
    proxy.mute();
    const found = directory.find(sha256Hex(keyNamed('acme')));
    await directory.close();
    expect(await found).toBe('unavailable');
    expect(monitor.failures).toEqual([]);
  });

  test('reads a key again for a caller that asks after the notification of its change', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const proxy = await postgres.proxy(url);
    const { directory } = await openDirectory(proxy.url);
    const hash = sha256Hex(keyNamed('acme'));
    await directory.find(sha256Hex(keyNamed('nobody')));
    // The key is looked up again as soon as the cache is cleared, while the response to the first look-up is still on its way.
    const { promise: after, resolve } = Promise.withResolvers<unknown>();
    const clear = vi.spyOn(LRUCache.prototype, 'clear');
    onTestFinished(() => clear.mockRestore());
    clear.mockImplementationOnce(() => resolve(directory.find(hash)));
    proxy.hold();
    const before = directory.find(hash);
    await vi.waitFor(() => expect(proxy.held).toContain('Account acme'));
    await put(store, storedAccount('acme', { active: false }));
    await vi.waitFor(() => expect(proxy.held).toContain('envelope_sidecar_accounts\0acme'));
    proxy.release();
    expect(await before).toMatchObject({ account: { active: true } });
    expect(await after).toMatchObject({ account: { active: false } });
  });

  test('drops all accounts named in one read of its connection at once, and reports each', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'), storedAccount('last'));
    const { directory } = await openDirectory(url);
    await directory.find(sha256Hex(keyNamed('acme')));
    await directory.find(sha256Hex(keyNamed('last')));
    await directory.find(sha256Hex(keyNamed('nobody')));
    const clear = vi.spyOn(LRUCache.prototype, 'clear');
    onTestFinished(() => clear.mockRestore());
    await postgres.psql(
      url,
      `BEGIN;
      SELECT pg_notify('envelope_sidecar_accounts', 'x' || n) FROM generate_series(1, 20000) AS n;
      UPDATE envelope_sidecar.accounts SET active = false WHERE account_id = 'last';
      COMMIT`,
    );
    await vi.waitFor(async () => {
      expect(await directory.find(sha256Hex(keyNamed('last')))).toMatchObject({ account: { active: false } });
    }, oneSecond);
    expect(clear).toHaveBeenCalledOnce();
    expect(directory.find(sha256Hex(keyNamed('acme')))).toMatchObject({ account: { active: true } });
  });

  test('drops each of thousands of accounts that are named during a query, and then does not cache what the query found', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    await put(openStore(url), storedAccount('acme'), storedAccount('other'));
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(sha256Hex(keyNamed('acme')));
    proxy.hold();
    const other = directory.find(sha256Hex(keyNamed('other')));
    await postgres.psql(
      url,
      `BEGIN;
      SELECT pg_notify('envelope_sidecar_accounts', 'x' || n) FROM generate_series(1, 3000) AS n;
      UPDATE envelope_sidecar.accounts SET active = false WHERE account_id = 'acme';
      COMMIT`,
    );
    await vi.waitFor(() => expect(proxy.held).toContain('envelope_sidecar_accounts\0acme'));
    proxy.release();
    await other;
    monitor.lookups.length = 0;
    await directory.find(sha256Hex(keyNamed('other')));
    expect(monitor.lookups).toEqual(['found']);
    proxy.cut();
    await vi.waitFor(() => expect(monitor.events).toContain('disconnected'));
    // An account that was dropped is not served from the cache while the database is away.
    expect(await directory.find(sha256Hex(keyNamed('acme')))).toBe('unavailable');
  });

  test('is not notified of recorded uses, and reads nothing again for them', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'), storedAccount('other'));
    const { directory, monitor } = await openDirectory(url);
    await directory.find(sha256Hex(keyNamed('acme')));
    await postgres.psql(url, `INSERT INTO envelope_sidecar.key_uses VALUES ('id-acmexxxxxxxxxxxx', now())`);
    await postgres.psql(url, 'UPDATE envelope_sidecar.key_uses SET used_at = now()');
    // Once a later notification on the same channel has arrived, a notification of the recorded use would have arrived, too.
    await postgres.psql(url, `UPDATE envelope_sidecar.accounts SET active = false WHERE account_id = 'other'`);
    await vi.waitFor(async () => {
      expect(await directory.find(sha256Hex(keyNamed('other')))).toMatchObject({ account: { active: false } });
    }, oneSecond);
    await directory.find(sha256Hex(keyNamed('acme')));
    expect(monitor.lookups.at(-1)).toBe('cached');
  });

  test('caches no more keys than configured, and unknown keys do not evict known ones', async () => {
    const url = await postgres.createDatabase();
    const names = ['a', 'b', 'c', 'd'];
    await put(openStore(url), ...names.map((name) => storedAccount(name)));
    const { directory, monitor } = await openDirectory(url, { cache: 3 });
    for (const name of names) await directory.find(sha256Hex(keyNamed(name)));
    for (let i = 0; i < 10; i += 1) await directory.find(sha256Hex(keyNamed(`guess-${i}`)));
    expect(directory.state).toMatchObject({ known: 3, unknown: 3 });
    monitor.lookups.length = 0;
    for (const name of ['b', 'c', 'd', 'a']) await directory.find(sha256Hex(keyNamed(name)));
    expect(monitor.lookups).toEqual(['cached', 'cached', 'cached', 'found']);
  });

  test('queries the database at most 200 times a second, however many keys are guessed', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory, monitor } = await openDirectory(url);
    const before = monitor.queries;
    const begin = performance.now();
    for (let batch = 0; batch < 30; batch += 1) {
      await Promise.all(
        Array.from({ length: 100 }, async (_, i) => directory.find(sha256Hex(keyNamed(`guess-${batch}-${i}`)))),
      );
    }
    const known = await directory.find(sha256Hex(keyNamed('acme')));
    const seconds = (performance.now() - begin) / 1_000;
    expect(known).toMatchObject({ account: { id: 'acme' } });
    expect(monitor.queries - before).toBeLessThanOrEqual(seconds * 200 + 2);
    expect(directory.state.unknown).toBeLessThanOrEqual(100);
  });

  test('refuses an account whose credentials cannot be unwrapped, logs the reason once, and serves the others', async () => {
    const url = await postgres.createDatabase();
    const broken = storedAccount('broken', { encryption: { test: storedEncryption('elsewhere', 'test') } });
    await put(openStore(url), broken, storedAccount('acme'));
    const { directory, monitor } = await openDirectory(url);
    expect(await directory.find(sha256Hex(keyNamed('broken')))).toBe('unavailable');
    expect(await directory.find(sha256Hex(keyNamed('broken')))).toBe('unavailable');
    expect(monitor.lookups).toEqual(['unavailable', 'unavailable']);
    expect(monitor.failures).toHaveLength(1);
    expect(monitor.failures[0]).toContain('account broken');
    expect(await directory.find(sha256Hex(keyNamed('acme')))).toMatchObject({ account: { id: 'acme' } });
  });

  test('returns both credentials of a grace', async () => {
    const url = await postgres.createDatabase();
    const until = Date.parse('2030-01-01T00:00:00.001Z');
    const { key, iv } = storedEncryption('acme', 'test').credentials;
    const previous = { credentials: { key, iv, format: 'text', createdAt: 0 }, until, lastUsedAt: undefined } as const;
    const encryption = storedEncryption('acme', 'test', { previous });
    await put(openStore(url), storedAccount('acme', { encryption: { test: encryption } }));
    const { directory } = await openDirectory(url);
    const found = await directory.find(sha256Hex(keyNamed('acme')));
    const { grace } = enabledOf(typeof found === 'object' ? found.account.encryption.test : undefined);
    expect(grace?.until).toBe(until);
    expect(grace?.previous?.pack().key.export().toString()).toBe('acme-test'.padEnd(32, 'k'));
  });

  test('names the missing tables', async () => {
    const url = await postgres.createDatabase();
    await postgres.psql(url, 'DROP SCHEMA envelope_sidecar CASCADE');
    const { directory, monitor } = await openDirectory(url);
    expect(await directory.find(sha256Hex(keyNamed('acme')))).toBe('unavailable');
    // One failure is of the look-up, and one of the numbers of changes.
    expect(monitor.failures).toEqual(Array(2).fill(expect.stringContaining('run "accounts migrate"')));
  });
});
