import { expect, onTestFinished, test, vi } from 'vitest';
import { unwrapAccount } from '../../../src/accounts/unwrap-account.ts';
import { changePool } from '../../../src/accounts/postgres/clients.ts';
import { AccountCounter } from '../../../src/accounts/postgres/account-counter.ts';
import { countAccounts } from '../../../src/accounts/account-stats.ts';
import type { StoredAccount } from '../../../src/accounts/store.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openStore, put, storedAccount, storedEncryption, storedKey, vault } from './fixtures.ts';

const now = Date.parse('2026-11-01T12:00:00.000Z');
const halfAYear = 180 * 86_400_000;

describeWithPostgres('the tally in PostgreSQL', () => {
  const postgres = usePostgres();

  function keeperAt(url: string, clock: () => number, monotonic = clock): AccountCounter {
    const pool = changePool(url, 1);
    onTestFinished(async () => (await pool).end());
    return new AccountCounter(() => pool, clock, monotonic);
  }

  test('equals the tally of a file with the same accounts', async () => {
    const encryption = (id: string, environment: 'test' | 'live', createdAt: number | undefined) => {
      const stored = storedEncryption(id, environment);
      return {
        ...stored,
        credentials: { ...stored.credentials, createdAt },
      } as const;
    };
    let made = 0;
    const key = (more: object, prefix = 'sk_test_') => {
      made += 1;
      return storedKey(`${prefix}${keyNamed(String(made)).slice(8)}`, { id: `k${made}`, createdAt: now - 5, ...more });
    };
    const accounts: StoredAccount[] = [
      storedAccount('none', { keys: [] }),
      storedAccount('off', {
        keys: [key({ createdAt: now - halfAYear }), key({ createdAt: now - halfAYear + 1 })],
        encryption: { test: { ...storedEncryption('off', 'test'), enabled: false } },
      }),
      storedAccount('test', {
        keys: [
          key({ expiresAt: now }),
          key({ expiresAt: now + 1 }),
          key({ revokedAt: now }),
          key({ revokedAt: now + 1 }),
        ],
        encryption: { test: encryption('test', 'test', undefined) },
      }),
      storedAccount('live', {
        keys: [key({}, 'pk_live_'), key({}, 'pk_test_'), key({ createdAt: 0 }, 'sk_live_')],
        encryption: { live: encryption('live', 'live', now - halfAYear) },
      }),
      storedAccount('both', {
        keys: [],
        active: false,
        encryption: {
          test: encryption('both', 'test', now - halfAYear + 1),
          live: encryption('both', 'live', now - halfAYear + 1),
        },
      }),
    ];
    const url = await postgres.createDatabase();
    await put(openStore(url), ...accounts);
    const keeper = keeperAt(url, () => now);
    await keeper.refresh();
    const inFile = countAccounts(
      accounts.map((account) => unwrapAccount(account, vault)),
      now,
    );
    expect(keeper.latest()).toEqual(inFile);
    expect(inFile.accounts.get('none')).toBe(2);
  });

  test('is zero without accounts', async () => {
    const keeper = keeperAt(await postgres.createDatabase(), () => now);
    await keeper.refresh();
    expect(keeper.latest()).toEqual(countAccounts([], now));
  });

  test('is counted again when it is old, and kept while the database is unreachable', async () => {
    const url = await postgres.createDatabase();
    const proxy = await postgres.proxy(url);
    let [time, wallClock] = [0, now];
    const keeper = keeperAt(
      proxy.url,
      () => wallClock,
      () => time,
    );
    expect(keeper.latest()).toBeUndefined();
    await vi.waitFor(() => expect(keeper.latest()?.accounts.get('none')).toBe(0));
    await put(openStore(url), storedAccount('acme'));
    time += 9_999;
    // Set the wall clock forward, and later back. The age of the tally does not depend on it.
    wallClock += 3_600_000;
    keeper.latest();
    await put(openStore(url), storedAccount('globex'));
    expect(keeper.latest()?.accounts.get('none')).toBe(0);
    time += 1;
    wallClock = 0;
    await vi.waitFor(() => expect(keeper.latest()?.accounts.get('none')).toBe(2));
    proxy.cut();
    time += 10_000;
    await keeper.refresh();
    expect(keeper.latest()?.accounts.get('none')).toBe(2);
  });
});
