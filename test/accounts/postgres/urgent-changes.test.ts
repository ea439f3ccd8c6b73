import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { Operations } from '../../../src/accounts/operations.ts';
import { Importer } from '../../../src/accounts/transfer/importer.ts';
import type { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import { record } from '../../../src/accounts/postgres/trail.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import {
  changeAll,
  keyNamed,
  openStore,
  put,
  slowSearches,
  storedAccount,
  storedEncryption,
  storedKey,
  vault,
} from './fixtures.ts';

const request = { actor: 'user:test' };
const event = { at: 0, actor: 'user:test', action: 'account_renamed', account: 'other', details: {} } as const;
const acme = storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test') } });
const keyId = storedKey(keyNamed('acme')).id;

function operationsOn(store: PostgresStore): Operations {
  return new Operations({ store, vault, clock: Date.now, audit: () => {} });
}

/** Opens a transaction that stays open until the end of the test. @returns a function that runs a statement in it */
async function openTransaction(
  url: string,
): Promise<(text: string, values?: readonly unknown[]) => Promise<unknown[]>> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return async (text, values) => (await client.query(text, values && [...values])).rows as unknown[];
}

function rename(store: PostgresStore, id: string): Promise<unknown> {
  return operationsOn(store).rename(id, 'Other', request);
}

describeWithPostgres('revoking, disabling and deactivating in PostgreSQL', () => {
  const postgres = usePostgres();

  /** Waits until this many statements are waiting for a lock or sleeping. */
  const waiting = async (url: string, number: number): Promise<void> => {
    const count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type IN ('Lock', 'Timeout')";
    await expect.poll(() => postgres.psql(url, count), { timeout: 5_000 }).toBe(String(number));
  };

  /** Begins something that continues while an operator revokes a key. `store` is the store on which the operator works. */
  const others: Readonly<Record<string, (url: string, store: PostgresStore) => Promise<void>>> = {
    'a sidecar that hangs in a commit for a long time': async (url) => {
      const run = await openTransaction(url);
      // Every connection of a sidecar has such a timeout, though a longer one.
      await run("SET LOCAL idle_in_transaction_session_timeout = '500ms'");
      await record(run as Parameters<typeof record>[0], [event], {});
    },
    'changes that wait for an account, more than there are connections': async (url, store) => {
      const run = await openTransaction(url);
      await run("SELECT FROM envelope_sidecar.accounts WHERE account_id = 'other' FOR UPDATE");
      for (let i = 0; i < 10; i += 1) rename(store, 'other').catch(() => {});
      await waiting(url, 2);
    },
    'revocations that wait for an account, many more than there are connections': async (url, store) => {
      const run = await openTransaction(url);
      await run("SELECT FROM envelope_sidecar.accounts WHERE account_id = 'other' FOR UPDATE");
      const waiting = Array.from({ length: 20 }, () =>
        operationsOn(store)
          .setActive('other', false, request)
          .catch(() => {}),
      );
      onTestFinished(async () => {
        await run('ROLLBACK');
        await Promise.all(waiting);
      });
    },
    'searches, more than there are connections': async (url, store) => {
      for (let i = 0; i < 10; i += 1)
        void Array.fromAsync(store.list('', undefined, { search: 'slow', now: 0 })).catch(() => {});
      await waiting(url, 2);
      // Make the remaining searches end without sleeping.
      onTestFinished(async () => void (await postgres.psql(url, slowSearches.end)));
    },
    'readers of the trail': async (_url, store) => {
      for (let i = 0; i < 30; i += 1)
        void operationsOn(store)
          .eventsPage(10, {})
          .catch(() => {});
    },
    'a new master key, in the middle': async (url) => {
      const proxy = await postgres.proxy(url);
      const store = openStore(proxy.url);
      const frozen = new Promise<void>((resolve) => {
        proxy.onSent = (data) => {
          if (!data.includes('UPDATE envelope_sidecar.accounts')) return;
          proxy.freeze();
          resolve();
        };
      });
      changeAll(store, (account) => (account.id === 'acme' ? account : { ...account, name: 'New' }), event).catch(
        () => {},
      );
      await frozen;
    },
    'an import that is not committed': async (url) => {
      const run = await openTransaction(url);
      await run(`INSERT INTO envelope_sidecar.accounts SELECT 'new-' || i, 'New', true FROM generate_series(1, 500) i`);
    },
    'a copy of all tables': async (url) => {
      const run = await openTransaction(url);
      for (const table of ['accounts', 'api_keys', 'encryption', 'audit', 'trail', 'receipts', 'key_uses'])
        await run(`SELECT * FROM envelope_sidecar.${table}`);
    },
    'a sidecar that records uses of the same account and never commits': async (url) => {
      const run = await openTransaction(url);
      await run(`INSERT INTO envelope_sidecar.key_uses VALUES ($1, now())`, [keyId]);
      await run(`UPDATE envelope_sidecar.key_uses SET used_at = now()`);
    },
    'a session that holds the locks that need no rights': async (url) => {
      const run = await openTransaction(url);
      const keys = await run(`SELECT objid FROM pg_locks WHERE locktype = 'advisory'`);
      expect(keys).toEqual([]);
      // The previous version took this lock on the end of the trail.
      await run('SELECT pg_advisory_lock(7305412968)');
    },
  };

  test.each(Object.entries(others))('do not wait for %s', async (_what, begin) => {
    const url = await postgres.createDatabase();
    await put(openStore(url), acme, storedAccount('other'));
    await postgres.psql(url, slowSearches.sql);
    const store = openStore(url + slowSearches.option);
    await begin(url, store);
    const operations = operationsOn(store);
    expect(await operations.revokeKey('acme', keyId, request)).toMatchObject({ state: 'revoked' });
    const replace = { encoding: undefined, grace: undefined, replace: true };
    expect(await operations.enableEncryption('acme', 'test', replace, request)).toMatchObject({ enabled: true });
    expect(await operations.disableEncryption('acme', 'test', 60_000, request)).toMatchObject({ enabled: false });
    expect(await operations.changeGrace('acme', 'test', undefined, request)).toMatchObject({ previous: null });
    expect(await operations.setActive('acme', false, request)).toMatchObject({ active: false });
    expect(await operations.stored('acme')).toMatchObject({ active: false });
    expect(await postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.trail')).toBe('5');
  });

  test('do not wait, if the end of a grace is moved, for a sidecar that records uses in the grace and never commits', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), acme);
    const operations = operationsOn(openStore(url));
    const replace = { encoding: undefined, grace: 60_000, replace: true };
    await operations.enableEncryption('acme', 'test', replace, request);
    const uses = `INSERT INTO envelope_sidecar.previous_uses (account_id, environment, until, used_at)
      SELECT account_id, environment, previous_until, now() FROM envelope_sidecar.encryption`;
    await postgres.psql(url, uses);
    const run = await openTransaction(url);
    await run('UPDATE envelope_sidecar.previous_uses SET used_at = now()');
    const until = Math.round(Date.now() / 1_000) * 1_000 + 10_000;
    const changed = { previous: { until: new Date(until).toISOString().replace('.000', '') } };
    expect(await operations.changeGrace('acme', 'test', until, request)).toMatchObject(changed);
  });

  test('do not wait for many revocations that retry again and again, because a transaction holds their accounts', async () => {
    const url = await postgres.createDatabase();
    const locked = Array.from({ length: 40 }, (_, i) => storedAccount(`locked-${i}`));
    const free = Array.from({ length: 20 }, (_, i) => storedAccount(`free-${i}`));
    await put(openStore(url), ...locked, ...free);
    const run = await openTransaction(url);
    await run("SELECT FROM envelope_sidecar.accounts WHERE account_id LIKE 'locked-%' FOR UPDATE");
    const operations = operationsOn(openStore(url));
    let ended = 0;
    const blocked = locked.map(({ id }) => operations.setActive(id, false, request).finally(() => (ended += 1)));
    // This deactivation waits for the first attempts of all the others.
    await operations.setActive('free-0', false, request);
    for (const { id } of free) await operations.setActive(id, false, request);
    expect(ended).toBe(0);
    await run('COMMIT');
    await Promise.all(blocked);
  });

  test.each([
    ['urgent', (store: PostgresStore) => operationsOn(store).setActive('acme', false, request), true],
    ['other', (store: PostgresStore) => rename(store, 'acme'), false],
  ])('the first attempt at %s changes waits only briefly for a lock: %s', async (_, change, isBrief) => {
    const proxy = await postgres.proxy(await postgres.createDatabase());
    const store = openStore(proxy.url);
    await put(store, acme);
    let sent = '';
    proxy.onSent = (data) => void (sent += data.toString('latin1'));
    await change(store);
    expect(sent.includes("; SET LOCAL lock_timeout = '10ms'")).toBe(isBrief);
  });

  test('one locked account holds up neither changes to other accounts, nor reads of them, nor the rest of an import', async () => {
    const url = await postgres.createDatabase();
    const others = Array.from({ length: 60 }, (_, i) => storedAccount(`other-${i}`));
    await put(openStore(url), acme, ...others);
    const run = await openTransaction(url);
    await run("SELECT FROM envelope_sidecar.accounts WHERE account_id = 'other-9' FOR UPDATE");
    const store = openStore(url);
    for (let i = 0; i < 10; i += 1) rename(store, 'other-9').catch(() => {});
    const importer = new Importer({ store, vault, clock: Date.now }, vault, 'user:test');
    const imported = importer.check(others.slice(0, 50)).catch(() => {});
    await waiting(url, 3);
    // Another process has its own connections, none of which waits.
    const other = operationsOn(openStore(url));
    for (const id of ['other-0', 'other-1']) await other.setActive(id, false, request);
    const operations = operationsOn(store);
    for (let i = 0; i < 5; i += 1) {
      await operations.rename('acme', `Acme ${i}`, request);
      expect(await operations.show('acme')).toMatchObject({ name: `Acme ${i}` });
    }
    await run('COMMIT');
    await imported;
  });

  test('do not wait longer than a few seconds for a sidecar that hangs while it changes the same account', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), acme);
    const proxy = await postgres.proxy(url);
    const frozen = new Promise<void>((resolve) => {
      proxy.onSent = (data) => {
        if (!data.includes('UPDATE envelope_sidecar.accounts')) return;
        proxy.freeze();
        resolve();
      };
    });
    rename(openStore(proxy.url), 'acme').catch(() => {});
    await frozen;
    expect(await operationsOn(openStore(url)).revokeKey('acme', keyId, request)).toMatchObject({ state: 'revoked' });
    expect(await openStore(url).read('acme')).toMatchObject({ name: 'Account acme' });
  });
});
