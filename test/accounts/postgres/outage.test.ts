import { rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { PostgresStore } from '../../../src/accounts/postgres/store.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openDirectory, openStore, put, storedAccount } from './fixtures.ts';
import { sha256Hex } from '../../../src/cryptography.ts';

const acme = sha256Hex(keyNamed('acme'));
const globex = sha256Hex(keyNamed('globex'));

/** Longer than the longest pause between two attempts to connect. */
const patience = { timeout: 15_000, interval: 10 };

describeWithPostgres('the directory during a database outage', () => {
  const postgres = usePostgres();

  /** A database with the account acme, and a proxy in front of it. */
  async function startWithAcme() {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    return { url, proxy: await postgres.proxy(url) };
  }

  test('keeps accepting known keys and reports others as unavailable until the server is back', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'), storedAccount('globex'));
    const { directory, monitor } = await openDirectory(url);
    await directory.find(acme);
    await postgres.stop();
    try {
      await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
      expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
      expect(await directory.find(globex)).toBe('unavailable');
      expect(await directory.find(sha256Hex(keyNamed('nobody')))).toBe('unavailable');
      expect(monitor.lookups).toEqual(['found', 'stale', 'unavailable', 'unavailable']);
    } finally {
      await postgres.start();
    }
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    expect(await directory.find(globex)).toMatchObject({ account: { id: 'globex' } });
    expect(monitor.events).toEqual(['connected', 'disconnected', 'connected']);
    expect(monitor.lookups).not.toContain('unknown');
  });

  test('waits longer at each attempt for a database that takes long to add a listener', async () => {
    const { proxy } = await startWithAcme();
    const { directory } = await openDirectory(proxy.url);
    let listens = 0;
    proxy.onSent = (data) => {
      if (!data.includes('LISTEN envelope_sidecar_accounts')) return;
      listens += 1;
      proxy.hold();
    };
    proxy.mend();
    await expect.poll(() => listens, patience).toBe(1);
    await delay(2_200);
    // The directory has given up the first attempt.
    proxy.release();
    await expect.poll(() => listens, patience).toBe(2);
    const began = performance.now();
    expect(await directory.find(acme)).toBe('unavailable');
    await delay(3_000 - (performance.now() - began));
    expect(listens).toBe(2);
    proxy.release();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
  });

  test('closes at once while the database adds a listener', async () => {
    const { proxy } = await startWithAcme();
    let news: Socket | undefined;
    proxy.onSent = (data, client) => {
      if (!data.includes('LISTEN envelope_sidecar_accounts')) return;
      news = client;
      proxy.freeze(client);
    };
    const opening = openDirectory(proxy.url);
    await expect.poll(() => news, patience).toBeDefined();
    // The first attempt fails, and the next one has twice the time.
    const first = news;
    const { directory } = await opening;
    await expect.poll(() => news !== first, patience).toBe(true);
    const began = performance.now();
    await directory.close();
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  test('a connection that ends right after it was opened for a change fails only the change', async () => {
    const { url, proxy } = await startWithAcme();
    const store = openStore(proxy.url);
    proxy.endOnceReady();
    const change = put(store, storedAccount('globex'));
    await expect(change).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(proxy.connections).toBeGreaterThan(0);
    expect(await openStore(url).read('globex')).toBeUndefined();
    proxy.mend();
    await put(store, storedAccount('globex'));
  });

  test('reads everything again after a lost connection, because it may have missed changes', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const proxy = await postgres.proxy(url);
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    await directory.find(globex);
    expect(directory.find(acme)).toMatchObject({ account: { active: true } });
    expect(directory.find(globex)).toBeUndefined();
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    await put(store, storedAccount('acme', { active: false }), storedAccount('globex'));
    expect(await directory.find(acme)).toMatchObject({ account: { active: true } });
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    monitor.lookups.length = 0;
    expect(await directory.find(acme)).toMatchObject({ account: { active: false } });
    expect(await directory.find(globex)).toMatchObject({ account: { id: 'globex' } });
    expect(monitor.lookups).toEqual(['found', 'found']);
  });

  test('notices that an older database has come back', async () => {
    const url = await postgres.createDatabase();
    const store = new PostgresStore(url);
    await put(store, storedAccount('acme'));
    // A database with open connections cannot be copied.
    await store.close();
    const [server, name] = [url.replace(/[^/]*(?=\?)/, 'postgres'), /[^/]*(?=\?)/.exec(url)?.[0]];
    await postgres.psql(server, `CREATE DATABASE backup TEMPLATE ${name}`);
    const proxy = await postgres.proxy(url);
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    let read = 0;
    proxy.onSent = (data) => void (read += data.includes('last-change') ? 1 : 0);
    await postgres.psql(url, 'UPDATE envelope_sidecar.api_keys SET revoked_at = now()');
    // The numbers are read every second. Once they are read again, the result of the reading before has arrived.
    read = 0;
    await vi.waitFor(() => expect(read).toBeGreaterThan(1), patience);
    expect(await directory.find(acme)).toMatchObject({ key: { revokedAt: expect.any(Number) as number } });

    proxy.cut();
    const connected = `SELECT count(*) FROM pg_stat_activity WHERE datname = '${name}'`;
    await expect.poll(() => postgres.psql(server, connected)).toBe('0');
    await postgres.psql(server, `ALTER DATABASE ${name} RENAME TO lost`);
    await postgres.psql(server, `ALTER DATABASE backup RENAME TO ${name}`);
    proxy.mend();
    await vi.waitFor(() => expect(monitor.lostChanges).toBe(1), patience);
    // The loss is counted once, not with each query.
    await directory.find(globex);
    await postgres.psql(url, 'UPDATE envelope_sidecar.accounts SET active = true');
    read = 0;
    await vi.waitFor(() => expect(read).toBeGreaterThan(1), patience);
    expect(monitor.lostChanges).toBe(1);
  });

  test('notices that changes were undone although the connection stayed open, and reads all keys again', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const { directory, monitor } = await openDirectory(url);
    await directory.find(acme);
    await postgres.psql(
      url,
      `SET search_path TO envelope_sidecar; ALTER TABLE accounts DISABLE TRIGGER USER; UPDATE accounts SET active = false;
       DELETE FROM changes; NOTIFY envelope_sidecar_accounts, 'another'`,
    );
    await vi.waitFor(() => expect(monitor.lostChanges).toBeGreaterThan(0), patience);
    expect(await directory.find(acme)).toMatchObject({ account: { active: false } });
  });

  test('does not bring back, in the next outage, a key that was deleted in the last one', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const proxy = await postgres.proxy(url);
    const { directory } = await openDirectory(proxy.url);
    await directory.find(acme);
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    await put(store, storedAccount('acme', { keys: [] }));
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    expect(await directory.find(acme)).toBeUndefined();
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    expect(await directory.find(acme)).toBe('unavailable');
  });

  test('keeps accepting known keys for exactly the configured time', async () => {
    const { proxy } = await startWithAcme();
    let now = 1_000_000;
    const { directory } = await openDirectory(proxy.url, { staleFor: 5_000, monotonic: () => now });
    await directory.find(acme);
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    now += 4_999;
    expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
    now += 1;
    expect(await directory.find(acme)).toBe('unavailable');
  });

  test('counts the configured time from the last response from the database, not from when the key was read', async () => {
    const { proxy } = await startWithAcme();
    let now = 1_000_000;
    const { directory } = await openDirectory(proxy.url, { staleFor: 5_000, monotonic: () => now });
    await directory.find(acme);
    now += 60_000;
    // The next heartbeat shows that no notification has been missed.
    let read = false;
    proxy.onSent = (data) => (read ||= data.includes('last-change'));
    await expect.poll(() => read, patience).toBe(true);
    await directory.find(globex);
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    now += 4_999;
    expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
  });

  test('notices a connection that no longer delivers anything', async () => {
    const { proxy } = await startWithAcme();
    const { directory } = await openDirectory(proxy.url);
    await directory.find(acme);
    proxy.freeze();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
    expect(await directory.find(globex)).toBe('unavailable');
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
  });

  test('does not use what was cached of an account that this sidecar has changed, although no notification arrives', async () => {
    const { url, proxy } = await startWithAcme();
    await put(openStore(url), storedAccount('globex'));
    const { directory } = await openDirectory(proxy.url);
    await directory.find(acme);
    await directory.find(globex);
    proxy.freeze();
    directory.forget('acme');
    expect(await directory.find(acme)).toBe('unavailable');
    expect(await directory.find(globex)).toMatchObject({ account: { id: 'globex' } });
  });

  test('is not cut off by defaults that its role has set for itself', async () => {
    const { url } = await startWithAcme();
    await postgres.psql(
      url,
      `CREATE ROLE careless LOGIN; GRANT USAGE ON SCHEMA envelope_sidecar TO careless;
       GRANT SELECT ON ALL TABLES IN SCHEMA envelope_sidecar TO careless`,
    );
    const own = url.replace('user=postgres', 'user=careless');
    await postgres.psql(
      own,
      `ALTER ROLE careless SET idle_session_timeout = '1ms'; ALTER ROLE careless SET tcp_user_timeout = '1ms'`,
    );
    const { directory, monitor } = await openDirectory(own);
    for (let i = 0; i < 3; i += 1) {
      expect(await directory.find(i === 0 ? acme : sha256Hex(String(i)))).toEqual(
        i === 0 ? expect.anything() : undefined,
      );
      await delay(50);
    }
    expect(await openStore(own).read('acme')).toMatchObject({ id: 'acme' });
    expect(monitor.events).toEqual(['connected']);
  });

  test('looks keys up at each use if no notifications arrive, and logs the reason', async () => {
    const { proxy } = await startWithAcme();
    proxy.swallowNotifications();
    const { directory, monitor } = await openDirectory(proxy.url);
    for (let i = 0; i < 2; i += 1) expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
    expect(monitor.lookups).toEqual(['found', 'found']);
    expect(directory.holds(acme)).toBe(false);
    expect(directory.state.connected).toBe(false);
    expect(monitor.reasons).toEqual([expect.stringContaining('notifications from the database do not arrive')]);
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    await directory.find(acme);
    expect(directory.holds(acme)).toBe(true);
    expect(monitor.events).toEqual(['disconnected', 'connected']);
  });

  test('does not use a cached key while its change may be waiting behind thousands of other notifications', async () => {
    const { url, proxy } = await startWithAcme();
    let news: Socket | undefined;
    proxy.onSent = (data, client) => {
      if (data.includes('LISTEN envelope_sidecar_accounts')) news = client;
    };
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    expect(directory.holds(acme)).toBe(true);
    // As if so many notifications arrived that the response to a heartbeat did not.
    proxy.freeze(news);
    await put(openStore(url), storedAccount('acme', { active: false }));
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), { timeout: 4_000, interval: 10 });
    expect(await directory.find(acme)).toMatchObject({ account: { active: false } });
    expect(monitor.lookups).toEqual(['found', 'found']);
    expect(directory.state.usableFor).toBeUndefined();
  });

  test('receives notifications from the server in which it looks keys up, although only the connection for look-ups was lost', async () => {
    const { proxy } = await startWithAcme();
    let lookUps: Socket | undefined;
    let listens = 0;
    proxy.onSent = (data, client) => {
      if (data.includes('look-up')) lookUps = client;
      if (data.includes('LISTEN envelope_sidecar_accounts')) listens += 1;
    };
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    expect(listens).toBe(1);
    lookUps?.destroy();
    await expect.poll(() => listens, patience).toBe(2);
    await expect.poll(() => monitor.events, patience).toEqual(['connected', 'disconnected', 'connected']);
    expect(directory.holds(acme)).toBe(false);
  });

  test('uses no standby, because it may be any time behind', async () => {
    const { url } = await startWithAcme();
    const { directory, monitor } = await openDirectory(url);
    await directory.find(acme);
    const signal = join(new URL(url).searchParams.get('host') ?? '', 'data', 'standby.signal');
    await postgres.stop();
    writeFileSync(signal, '');
    await postgres.start();
    try {
      await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
      await delay(500);
      const starting = await openDirectory(url);
      expect(await starting.directory.find(acme)).toBe('unavailable');
      expect(starting.monitor.reasons).toEqual(['the database is read-only at the moment']);
      expect(await directory.find(globex)).toBe('unavailable');
      expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
      expect(monitor.lookups.at(-1)).toBe('stale');
    } finally {
      await postgres.stop();
      rmSync(signal);
      await postgres.start();
    }
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
  });

  test('starts without its database and connects later', async () => {
    const { proxy } = await startWithAcme();
    proxy.cut();
    const { directory, monitor } = await openDirectory(proxy.url);
    expect(await directory.find(acme)).toBe('unavailable');
    proxy.mend();
    await vi.waitFor(() => expect(monitor.events).toEqual(['disconnected', 'connected']), patience);
    expect(await directory.find(acme)).toMatchObject({ account: {} });
    expect(monitor.lookups).not.toContain('unknown');
  });

  test('starts although the certificate named in the URL is missing, and logs it', async () => {
    const proxy = await postgres.proxy(await postgres.createDatabase());
    const { directory, monitor } = await openDirectory(`${proxy.url}?sslmode=verify-full&sslrootcert=/nowhere/ca.crt`);
    expect(await directory.find(acme)).toBe('unavailable');
    expect(monitor.reasons).toEqual(['the database cannot be reached (cannot read /nowhere/ca.crt: ENOENT)']);
    expect(proxy.connections).toBe(0);
  });

  test('keeps accepting known keys if the database responds with errors', async () => {
    const { url, proxy } = await startWithAcme();
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    await postgres.psql(url, 'ALTER TABLE envelope_sidecar.api_keys RENAME TO elsewhere');
    proxy.mend();
    await vi.waitFor(() => expect(monitor.events).toHaveLength(3), patience);
    expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
    expect(await directory.find(globex)).toBe('unavailable');
    expect(monitor.lookups).toEqual(['found', 'stale', 'unavailable']);
    expect(monitor.failures).toHaveLength(1);
    await postgres.psql(url, 'ALTER TABLE envelope_sidecar.elsewhere RENAME TO api_keys');
    await vi.waitFor(async () => {
      expect(await directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
      expect(monitor.lookups.at(-1)).toBe('found');
    }, patience);
  });

  test('looks known keys up again after a lost connection even if the numbers of changes cannot be read', async () => {
    const { url, proxy } = await startWithAcme();
    await put(openStore(url), storedAccount('globex'));
    const { directory, monitor } = await openDirectory(proxy.url);
    await directory.find(acme);
    await postgres.psql(url, 'ALTER FUNCTION envelope_sidecar.last_change() RENAME TO elsewhere');
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    await put(openStore(url), storedAccount('acme', { active: false }));
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    await vi.waitFor(() => expect(monitor.failures).not.toEqual([]), patience);
    expect(await directory.find(acme)).toMatchObject({ account: { active: false } });
  });

  test('finds known keys without waiting for a query while queries fail, as on a locked table, but only for staleFor', async () => {
    const { url, proxy } = await startWithAcme();
    let now = 1_000_000;
    const { directory, monitor } = await openDirectory(proxy.url, { staleFor: 120_000, monotonic: () => now });
    await directory.find(acme);
    await postgres.psql(url, 'ALTER TABLE envelope_sidecar.api_keys RENAME TO elsewhere');
    await vi.waitFor(() => expect(monitor.failures).toHaveLength(1), patience);
    now += 119_999;
    expect(directory.holds(acme)).toBe(true);
    expect(directory.find(acme)).toMatchObject({ account: { id: 'acme' } });
    expect(monitor.lookups.at(-1)).toBe('stale');
    now += 1;
    expect(directory.holds(acme)).toBe(false);
    expect(await directory.find(acme)).toBe('unavailable');
    // After a reconnection, queries may succeed again, so each key is looked up before its next use.
    now -= 60_000;
    proxy.cut();
    await vi.waitFor(() => expect(directory.state.connected).toBe(false), patience);
    await postgres.psql(url, 'ALTER TABLE envelope_sidecar.elsewhere RENAME TO api_keys');
    proxy.mend();
    await vi.waitFor(() => expect(directory.state.connected).toBe(true), patience);
    expect(directory.holds(acme)).toBe(false);
  });
});
