import { createSecretKey } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { createMasterKey, openedKey } from '../../../src/accounts/master-key.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { Operations } from '../../../src/accounts/operations.ts';
import type { PostgresSettings } from '../../../src/accounts/postgres/accounts.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { envelopeOf, expectPlainRefusal, opened, send } from '../../support/client.ts';
import { eventually } from '../../support/eventually.ts';
import { scrape } from '../../support/metrics.ts';
import { configOf, startSidecar, type TestSidecar } from '../../support/sidecar.ts';
import { startUpstream } from '../../support/upstream.ts';
import { keyNamed, masterKey, openStore, put, settings, storedAccount, storedKey, vault } from './fixtures.ts';

/** How long a change through one sidecar may take to apply in all sidecars. */
const oneSecond = { timeout: 1_000, interval: 5 };
const patience = { timeout: 15_000, interval: 10 };

const actor = 'user:test';
const path = 'POST /api/s2s/charges';

function operationsOn(url: string): Operations {
  return new Operations({ store: openStore(url), vault, clock: Date.now, audit: () => {} });
}

/** Starts several sidecars in front of one upstream, with their accounts in a database. */
async function startSidecars(url: string, count: number): Promise<TestSidecar[]> {
  const upstream = await startUpstream();
  const config = configOf(upstream.origin, { accounts: [], store: settings(url) });
  return Promise.all(Array.from({ length: count }, () => startSidecar(config)));
}

async function newMerchant(operations: Operations): Promise<{ readonly key: string; readonly id: string }> {
  await operations.add('acme', 'Acme Stores', { actor });
  const options = { environment: 'test', kind: 'secret', lifetime: undefined } as const;
  const issued = await operations.issueKey('acme', options, { actor });
  return JSON.parse(JSON.stringify(issued)) as { key: string; id: string };
}

describeWithPostgres('two sidecars on one database', () => {
  const postgres = usePostgres();

  test('see a new key, new encryption, a deactivated account and a revoked key within a second', async () => {
    const url = await postgres.createDatabase();
    const sidecars = await startSidecars(url, 2);
    const operations = operationsOn(url);
    const { key, id } = await newMerchant(operations);
    const inBoth = (expectation: (sidecar: TestSidecar) => Promise<void>): Promise<void> =>
      vi.waitFor(async () => {
        for (const sidecar of sidecars) {
          await expectation(sidecar);
          // The next change is logged only if the key is cached. A key that is read while a notification arrives is not cached.
          expect(await scrape(sidecar)).toContain('accounts_cached{kind="known"} 1');
        }
      }, oneSecond);

    await inBoth(async (sidecar) => expect((await send(sidecar, path, { key, body: '{}' })).body).toBe('{"ok":true}'));

    const enable = { encoding: undefined, grace: undefined, replace: true };
    for (const _round of ['enabled', 'replaced']) {
      const made = await operations.enableEncryption('acme', 'test', enable, { actor });
      const credentials = JSON.parse(JSON.stringify(made)) as { key: string; iv: string };
      await inBoth(async (sidecar) => {
        const response = await send(sidecar, path, { key, body: envelopeOf(credentials, '{}') });
        expect(opened(credentials, response)).toBe('{"ok":true}');
      });
    }

    await operations.setActive('acme', false, { actor });
    await inBoth(async (sidecar) => expect((await send(sidecar, 'GET /', { key })).status).toBe(403));
    await operations.setActive('acme', true, { actor });
    await operations.revokeKey('acme', id, { actor });
    await inBoth(async (sidecar) => expectPlainRefusal(await send(sidecar, 'GET /', { key }), 'invalid_api_key'));
    const changes = [
      'encryption_enabled',
      'credentials_replaced',
      'account_deactivated',
      'account_activated',
      'key_revoked',
    ];
    await inBoth(async (sidecar) => {
      // A key that is read while another change arrives is not cached, so its changes are logged at its next use.
      await send(sidecar, 'GET /', { key });
      const { log } = sidecar;
      const logged = log.filter(({ msg, account }) => msg === 'account changed' && account === 'acme');
      expect(new Set(logged.map(({ change }) => change))).toEqual(new Set(changes));
    });
  });

  test('log the revocation of each key once, whoever revokes it, although no request uses the key', async () => {
    const url = await postgres.createDatabase();
    const sidecars = await startSidecars(url, 2);
    const operations = operationsOn(url);
    const { id } = await newMerchant(operations);
    const options = { environment: 'live', kind: 'secret', lifetime: undefined } as const;
    const others = await Promise.all([1, 2, 3].map(() => operations.issueKey('acme', options, { actor })));
    const [used, byHand] = others;
    await operations.revokeKey('acme', id, { actor });
    await operations.revokeKey('acme', used?.id ?? '', { actor });
    await postgres.psql(url, `UPDATE envelope_sidecar.api_keys SET revoked_at = now() WHERE key_id = '${byHand?.id}'`);
    const logged = ({ log }: TestSidecar): unknown[] =>
      log.filter(({ change }) => change === 'key_revoked').map(({ key, account }) => [account, key]);
    const expected = [id, used?.id, byHand?.id].map((key) => ['acme', key]);
    await vi.waitFor(() => {
      for (const sidecar of sidecars)
        expect(new Set(logged(sidecar).map(String))).toEqual(new Set(expected.map(String)));
    }, patience);
    for (const sidecar of sidecars) expect(logged(sidecar)).toHaveLength(3);
  });

  test('log all keys that one statement revokes, page by page, so that the log can hold them', async () => {
    const url = await postgres.createDatabase();
    const sidecars = await startSidecars(url, 1);
    await newMerchant(operationsOn(url));
    await postgres.psql(
      url,
      `INSERT INTO envelope_sidecar.api_keys (key_id, account_id, prefix, hash, created_at)
        SELECT 'k' || i, 'acme', 'sk_test_', sha256(i::text::bytea), now() FROM generate_series(1, 2500) AS i`,
    );
    await postgres.psql(url, 'UPDATE envelope_sidecar.api_keys SET revoked_at = now()');
    for (const { log } of sidecars) {
      const logged = (): unknown[] => log.filter(({ change }) => change === 'key_revoked').map(({ key }) => key);
      await vi.waitFor(() => expect(logged().length).toBeGreaterThanOrEqual(2_501), patience);
      expect(new Set(logged()).size).toBe(2_501);
      expect(logged()).toHaveLength(2_501);
    }
  });

  test('accept known keys while the database is down, and refuse others with 503', async () => {
    const url = await postgres.createDatabase();
    const sidecars = await startSidecars(url, 2);
    const [first] = sidecars;
    const { key } = await newMerchant(operationsOn(url));
    if (first === undefined) throw new Error('no sidecar');
    // A key that is read while a notification arrives is not cached.
    await vi.waitFor(async () => {
      expect((await send(first, 'GET /', { key })).status).toBe(200);
      expect(await scrape(first)).toContain('accounts_cached{kind="known"} 1');
    }, oneSecond);
    await postgres.stop();
    try {
      for (const sidecar of sidecars) {
        await vi.waitFor(async () => expect(await scrape(sidecar)).toContain('accounts_connected 0'), patience);
        const unknown = await send(sidecar, 'GET /', { key: 'sk_test_nobodynobodynobody' });
        expectPlainRefusal(unknown, 'accounts_unavailable');
        const known = await send(sidecar, 'GET /', { key });
        expect(known.status).toBe(sidecar === first ? 200 : 503);
        expect((await fetch(`${sidecar.adminUrl}/readyz`)).status).toBe(200);
      }
    } finally {
      await postgres.start();
    }
    for (const sidecar of sidecars) {
      await vi.waitFor(async () => expect((await send(sidecar, 'GET /', { key })).status).toBe(200), patience);
      expect(sidecar.accessLines().map(({ status }) => status)).not.toContain(401);
      const messages = sidecar.log.map(({ msg }) => msg);
      expect(messages.filter((msg) => String(msg).startsWith('no connection to the database'))).toHaveLength(1);
    }
  });
});

describeWithPostgres('a sidecar with its accounts in a database', () => {
  const postgres = usePostgres();

  async function startOne(url: string): Promise<TestSidecar> {
    const [sidecar] = await startSidecars(url, 1);
    if (sidecar === undefined) throw new Error('no sidecar');
    return sidecar;
  }

  test('measures look-ups and exposes the numbers of accounts, keys and credentials', async () => {
    const url = await postgres.createDatabase();
    const operations = operationsOn(url);
    const { key } = await newMerchant(operations);
    const sidecar = await startOne(url);
    await send(sidecar, 'GET /', { key });
    await send(sidecar, 'GET /', { key });
    for (let i = 0; i < 2; i += 1) await send(sidecar, 'GET /', { key: 'sk_test_nobodynobodynobody' });
    await vi.waitFor(async () => {
      const metrics = await scrape(sidecar);
      for (const outcome of ['found', 'cached', 'unknown', 'cached_unknown']) {
        expect(metrics).toContain(`envelope_sidecar_accounts_lookups_total{outcome="${outcome}"} 1`);
      }
      expect(metrics).toContain('envelope_sidecar_accounts_lookups_total{outcome="stale"} 0');
      expect(metrics).toContain('envelope_sidecar_accounts_cached{kind="known"} 1');
      expect(metrics).toContain('envelope_sidecar_accounts_cached{kind="unknown"} 1');
      expect(metrics).toContain('envelope_sidecar_accounts_connected 1');
      expect(metrics).toMatch(/envelope_sidecar_accounts_age_seconds [0-3]/);
      expect(metrics).toMatch(/envelope_sidecar_accounts_query_duration_seconds_count [2-9]/);
      expect(metrics).toContain('envelope_sidecar_accounts{encryption="none"} 1');
      expect(metrics).toContain('envelope_sidecar_api_keys{environment="test",kind="secret",rotation="current"} 1');
    });
  });

  test('lacks these metrics if the accounts are in a file', async () => {
    const upstream = await startUpstream();
    const sidecar = await startSidecar(configOf(upstream.origin));
    expect(await scrape(sidecar)).not.toMatch(/accounts_(?:lookups|cached|connected|age|query)/);
  });

  test('records the last use of a key and of a grace when it stops, at the latest, so that the event of a revocation includes the last use', async () => {
    const url = await postgres.createDatabase();
    const operations = operationsOn(url);
    const { key, id } = await newMerchant(operations);
    const grace = { encoding: undefined, grace: 60_000, replace: false };
    await operations.enableEncryption('acme', 'test', grace, { actor });
    const sidecar = await startOne(url);
    const before = Date.now();
    expect((await send(sidecar, path, { key, body: '{}' })).headers['envelope-credentials']).toBe('none');
    await sidecar.app.stop();
    const stored = await openStore(url).read('acme');
    for (const used of [stored?.keys.find((each) => each.id === id), stored?.encryption.test?.previous]) {
      expect(used?.lastUsedAt).toBeGreaterThanOrEqual(before);
      expect(used?.lastUsedAt).toBeLessThanOrEqual(Date.now());
    }
    const { last_used_at: used } = await operations.revokeKey('acme', id, { actor });
    const { items } = await operations.eventsPage(1, {});
    expect(items[0]?.details).toEqual({ key: id, environment: 'test', last_used_at: used });
  });

  test.each([
    ['an envelope', true],
    ['plaintext', false],
  ])('after encryption was disabled with a grace, counts %s as use of the old credentials: %s', async (kind, isUse) => {
    const url = await postgres.createDatabase();
    const operations = operationsOn(url);
    const { key } = await newMerchant(operations);
    const enable = { encoding: undefined, grace: undefined, replace: false };
    const credentials = JSON.parse(
      JSON.stringify(await operations.enableEncryption('acme', 'test', enable, { actor })),
    ) as { key: string; iv: string };
    await operations.disableEncryption('acme', 'test', 60_000, { actor });
    const sidecar = await startOne(url);
    const body = kind === 'plaintext' ? '{}' : envelopeOf(credentials, '{}');
    expect((await send(sidecar, path, { key, body })).status).toBe(200);
    await sidecar.app.stop();
    const previous = (await openStore(url).read('acme'))?.encryption.test?.previous;
    expect(previous).toBeDefined();
    expect(previous?.lastUsedAt !== undefined).toBe(isUse);
  });

  test('does not record the use of a key that was refused', async () => {
    const url = await postgres.createDatabase();
    const operations = operationsOn(url);
    const { key } = await newMerchant(operations);
    await operations.setActive('acme', false, { actor });
    const sidecar = await startOne(url);
    expect((await send(sidecar, 'GET /', { key })).status).toBe(403);
    await sidecar.app.stop();
    expect((await openStore(url).read('acme'))?.keys[0]?.lastUsedAt).toBeUndefined();
  });

  test('keeps its connection on a reload with the same database, and switches to another one at once', async () => {
    const url = await postgres.createDatabase();
    const { key } = await newMerchant(operationsOn(url));
    const proxy = await postgres.proxy(url);
    const upstream = await startUpstream();
    const config = (store: PostgresSettings) =>
      configOf(upstream.origin, { accounts: [], store: { type: 'postgres', ...store } });
    const sidecar = await startSidecar(config(settings(proxy.url)));
    await send(sidecar, 'GET /', { key });
    const connections = proxy.connections;
    sidecar.app.apply(
      config(settings(proxy.url, { masterKeys: [createMasterKey(createSecretKey(openedKey(masterKey).export()))] })),
    );
    await send(sidecar, 'GET /', { key });
    expect(await scrape(sidecar)).toContain('envelope_sidecar_accounts_lookups_total{outcome="cached"} 1');
    expect(proxy.connections).toBe(connections);

    sidecar.app.apply(config(settings(url)));
    expect((await send(sidecar, 'GET /', { key })).status).toBe(200);
    await vi.waitFor(() => expect(proxy.open).toBe(0), patience);
  });

  test('fails no request of many merchants when a reload empties the cache', async () => {
    const url = await postgres.createDatabase();
    const operations = operationsOn(url);
    const options = { environment: 'test', kind: 'secret', lifetime: undefined } as const;
    const merchants = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        await operations.add(`m${i}`, 'Merchant', { actor });
        return JSON.parse(JSON.stringify(await operations.issueKey(`m${i}`, options, { actor }))) as { key: string };
      }),
    );
    const upstream = await startUpstream();
    const config = (cache: number) =>
      configOf(upstream.origin, { accounts: [], store: settings(url, { cache }), limits: { inFlight: 64 } });
    const sidecar = await startSidecar(config(100));
    const statuses = new Map<number, number>();
    for (let i = 0; i < 5; i += 1) {
      sidecar.app.apply(config(101 + i));
      const responses = await Promise.all(merchants.map(({ key }) => send(sidecar, 'GET /', { key })));
      for (const { status } of responses) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect([...statuses]).toEqual([[200, 200]]);
  });

  test('opens no more connections than docs/postgresql.md says', async () => {
    const url = await postgres.createDatabase();
    const { key } = await newMerchant(operationsOn(url));
    const [proxy, next] = [await postgres.proxy(url), await postgres.proxy(url)];
    const upstream = await startUpstream();
    const config = (store: PostgresSettings) =>
      configOf(upstream.origin, { accounts: [], store: { type: 'postgres', ...store } });
    const sidecar = await startSidecar(config(settings(proxy.url)));
    // Make the sidecar look keys up, count accounts for the metrics, and record last uses.
    await send(sidecar, 'GET /', { key });
    await vi.waitFor(async () => {
      expect(await scrape(sidecar)).toContain('envelope_sidecar_accounts{encryption="none"} 1');
    }, patience);
    const started = proxy.most;
    sidecar.app.apply(config(settings(next.url)));
    expect((await send(sidecar, 'GET /', { key })).status).toBe(200);
    await scrape(sidecar);
    await vi.waitFor(() => expect(proxy.open).toBe(0), patience);
    const reloaded = next.most;
    const store = openStore(proxy.url);
    const operations = new Operations({ store, vault, clock: Date.now, audit: () => {} });
    const work = Array.from({ length: 20 }, () => [
      operations.show('acme'),
      operations.stored('acme', { urgent: true }),
      operations.stored('acme', { urgent: true, ofAccount: true }),
      operations.stored('acme', { ofAccount: true }),
      store.readWithoutKeys('acme'),
      operations.listPage(10, {}),
      operations.eventsPage(10, {}),
    ]);
    await Promise.all(work.flat());
    // Three connections stay open, and a fourth one is open for a moment.
    expect(Math.max(started, reloaded)).toBeLessThanOrEqual(4);
    // Three more connections are for changes that run into a lock.
    expect(proxy.open).toBe(15);
  });

  test('serves cached keys and valid keys while look-ups hang, whatever guessing clients do', async () => {
    const url = await postgres.createDatabase();
    const [held, fresh] = [keyNamed('held'), keyNamed('fresh')];
    await put(openStore(url), storedAccount('acme', { keys: [storedKey(held), storedKey(fresh)] }));
    const upstream = await startUpstream();
    const sidecar = await startSidecar(
      configOf(upstream.origin, {
        accounts: [],
        store: settings(url),
        trustedProxies: ['127.0.0.1'],
        limits: { inFlight: 16, failedKeys: { attempts: 2, window: 600_000 } },
      }),
    );
    const suspect = '203.0.113.7';
    let guesses = 0;
    const guess = async (from: string): Promise<string> => {
      const key = `sk_test_guess${String((guesses += 1)).padStart(16, '0')}`;
      const { body } = await send(sidecar, 'GET /', { key, headers: { 'X-Forwarded-For': from } });
      return (JSON.parse(body) as { code: string }).code;
    };
    const statusOf = async (key: string): Promise<number> =>
      (await send(sidecar, 'GET /', { key, headers: { 'X-Forwarded-For': suspect } })).status;
    expect(await statusOf(held)).toBe(200);
    expect(await scrape(sidecar)).toContain('accounts_cached{kind="known"} 1');
    for (const code of ['invalid_api_key', 'invalid_api_key', 'too_many_attempts']) {
      expect(await guess(suspect)).toBe(code);
    }

    const lock = 'LOCK TABLE envelope_sidecar.api_keys IN ACCESS EXCLUSIVE MODE';
    const locked = postgres.psql(url, `BEGIN; ${lock}; SELECT pg_sleep(60)`).catch(() => {});
    const ofLock = "FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%' AND wait_event = 'PgSleep'";
    await vi.waitFor(async () => expect(await postgres.psql(url, `SELECT count(*) ${ofLock}`)).toBe('1'), patience);
    try {
      const refused: string[] = [];
      const flood = Array.from({ length: 24 }, async (_, i) => refused.push(await guess(`198.51.100.${i}`)));
      // The other guesses wait for the database.
      await vi.waitFor(() => expect(refused.length).toBeGreaterThanOrEqual(20), patience);
      for (let i = 0; i < 10; i += 1) expect(await statusOf(held)).toBe(200);
      // The status is neither 401 nor 429, because the sidecar cannot know whether the key is valid.
      expect(await statusOf(fresh)).toBe(503);
      await Promise.all(flood);
      expect(new Set(refused)).toEqual(new Set(['accounts_unavailable']));
      expect(await statusOf(held)).toBe(200);
    } finally {
      await postgres.psql(url, `SELECT pg_terminate_backend(pid) ${ofLock}`);
      await locked;
    }
    const statuses: number[] = [];
    await eventually(
      'a key that is not cached is accepted',
      async () => statuses.push(await statusOf(fresh)) > 0 && statuses.at(-1) === 200,
      patience,
    );
    for (const status of statuses) expect(status).toBeOneOf([200, 503]);
    expect(await guess(suspect)).toBe('too_many_attempts');
    expect(await statusOf(held)).toBe(200);
  });

  test('switches between accounts in a file and in a database', async () => {
    const url = await postgres.createDatabase();
    const { key } = await newMerchant(operationsOn(url));
    const upstream = await startUpstream();
    const inFile = configOf(upstream.origin, { accounts: [] });
    const sidecar = await startSidecar(inFile);
    expect((await send(sidecar, 'GET /', { key })).status).toBe(401);
    sidecar.app.apply({ ...inFile, store: settings(url) });
    expect((await send(sidecar, 'GET /', { key })).status).toBe(200);
    sidecar.app.apply(inFile);
    expect((await send(sidecar, 'GET /', { key })).status).toBe(401);
  });
});

describeWithPostgres('a wrong master key', () => {
  const postgres = usePostgres();
  const otherKey = createMasterKey(createSecretKey(Buffer.alloc(32, 99)));
  const enable = { encoding: undefined, grace: undefined, replace: false };
  const failing = 'envelope_sidecar_sealed_credentials_failing_ratio';

  async function encryptingIn(url: string, id: string, sealedWith: Vault): Promise<void> {
    const operations = new Operations({ store: openStore(url), vault: sealedWith, clock: Date.now, audit: () => {} });
    await operations.add(id, id, { actor });
    await operations.enableEncryption(id, 'test', enable, { actor });
  }

  const isReady = async ({ adminUrl }: TestSidecar): Promise<boolean> =>
    (await fetch(`${adminUrl}/readyz`)).status === 200;
  const complaints = ({ log }: TestSidecar): unknown =>
    log
      .filter(({ msg }) => String(msg).includes('with the master key'))
      .map(({ level, msg, tried, failed }) => [level, msg, tried, failed]);

  test('for all wrapped credentials makes the sidecar not ready until a reload brings the right one', async () => {
    const url = await postgres.createDatabase();
    await encryptingIn(url, 'acme', vault);
    const store = settings(url, { masterKeys: [otherKey] });
    const config = configOf('http://127.0.0.1:1', { accounts: [], store });
    const sidecar = await startSidecar(config);
    expect(await isReady(sidecar)).toBe(false);
    expect(complaints(sidecar)).toEqual([['error', 'no sealed credentials open with the master key: not ready', 1, 1]]);
    expect(await scrape(sidecar)).toContain(`${failing} 1\n`);

    sidecar.app.apply({ ...config, store: settings(url) });
    await eventually('the sidecar is ready', () => isReady(sidecar), patience);
    expect(await scrape(sidecar)).toContain(`${failing} 0\n`);
  });

  test('for some wrapped credentials is logged as an error and counted; the sidecar is ready', async () => {
    const url = await postgres.createDatabase();
    await encryptingIn(url, 'acme', vault);
    await encryptingIn(url, 'globex', new Vault([otherKey]));
    const sidecar = await startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) }));
    expect(await isReady(sidecar)).toBe(true);
    expect(complaints(sidecar)).toEqual([['error', 'not all sealed credentials open with the master key', 2, 1]]);
    expect(await scrape(sidecar)).toContain(`${failing} 0.5\n`);
  });

  test('is not assumed because of an unreadable row: the row is logged and counted, and the sidecar is ready', async () => {
    const url = await postgres.createDatabase();
    await encryptingIn(url, 'acme', vault);
    const odd = `previous_key = key, previous_iv = iv, previous_format = format, previous_until = 'infinity'`;
    await postgres.psql(url, `UPDATE envelope_sidecar.encryption SET ${odd}`);
    const sidecar = await startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) }));
    expect(await isReady(sidecar)).toBe(true);
    expect(complaints(sidecar)).toEqual([['error', 'not all sealed credentials open with the master key', 1, 1]]);
    expect(await scrape(sidecar)).toContain(`${failing} 1\n`);
  });

  test('after a reload is logged as an error, and the sidecar stays ready', async () => {
    const url = await postgres.createDatabase();
    await encryptingIn(url, 'acme', vault);
    const config = configOf('http://127.0.0.1:1', { accounts: [], store: settings(url) });
    const sidecar = await startSidecar(config);
    sidecar.app.apply({ ...config, store: settings(url, { masterKeys: [otherKey] }) });
    await eventually(
      'the metric reports the failure',
      async () => (await scrape(sidecar)).includes(`${failing} 1\n`),
      patience,
    );
    expect(complaints(sidecar)).toEqual([['error', 'no sealed credentials open with the master key', 1, 1]]);
    expect(await isReady(sidecar)).toBe(true);
  });

  test('cannot be detected if no credentials are wrapped: the sidecar is ready', async () => {
    const url = await postgres.createDatabase();
    const store = settings(url, { masterKeys: [otherKey] });
    expect(await isReady(await startSidecar(configOf('http://127.0.0.1:1', { accounts: [], store })))).toBe(true);
  });
});
