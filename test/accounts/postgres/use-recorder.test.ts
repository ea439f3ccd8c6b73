import { expect, onTestFinished, test } from 'vitest';
import { changePool } from '../../../src/accounts/postgres/clients.ts';
import { UseRecorder } from '../../../src/accounts/postgres/use-recorder.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openStore, put, storedAccount, storedEncryption, storedKey } from './fixtures.ts';

/** Noon of yesterday, because the database forgets hours after 30 days. */
const noon = (Math.floor(Date.now() / 86_400_000) - 0.5) * 86_400_000;
const day = new Date(noon).toISOString().slice(8, 10);
const minute = 60_000;
const hour = 60 * minute;
const key = storedKey(keyNamed('acme')).id;

describeWithPostgres('the recorder of uses', () => {
  const postgres = usePostgres();

  function recorderAt(url: string): UseRecorder {
    const pool = changePool(url, 1);
    onTestFinished(async () => (await pool).end());
    return new UseRecorder(() => pool);
  }

  test('writes each key once, with its last use', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'), storedAccount('globex'));
    const recorder = recorderAt(url);
    recorder.key(key, noon);
    recorder.key(key, noon + 1);
    recorder.key('unknown-meanwhile', noon);
    await recorder.write();
    expect((await store.read('acme'))?.keys[0]?.lastUsedAt).toBe(noon + 1);
    expect((await store.read('globex'))?.keys[0]?.lastUsedAt).toBeUndefined();
  });

  test('writes a key at most once a minute, across sidecars', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const recorders = [recorderAt(url), recorderAt(url)];
    const seen: (number | undefined)[] = [];
    for (const [i, at] of [noon, noon + minute - 1, noon + minute, noon].entries()) {
      recorders[i % 2]?.key(key, at);
      await recorders[i % 2]?.write();
      seen.push((await store.read('acme'))?.keys[0]?.lastUsedAt);
    }
    expect(seen).toEqual([noon, noon, noon + minute, noon + minute]);
  });

  test('writes no use that is in the future by the clock of the database, and corrects such a use', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const until = Date.now() + 48 * hour;
    const previous = { credentials: undefined, until, lastUsedAt: undefined };
    await put(store, storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test', { previous }) } }));
    const uses = async (): Promise<readonly [key: number, previous: number]> => {
      const account = await store.read('acme');
      return [account?.keys[0]?.lastUsedAt ?? NaN, account?.encryption.test?.previous?.lastUsedAt ?? NaN];
    };
    const use = async (at: number): Promise<void> => {
      const recorder = recorderAt(url);
      recorder.key(key, at);
      recorder.previous('acme', 'test', until, at);
      await recorder.write();
    };
    const began = Date.now() - 1_000;
    await use(began + 24 * hour);
    for (const at of await uses()) expect([at > began, at < began + hour]).toEqual([true, true]);
    const hours = `SELECT count(*) FROM envelope_sidecar.key_hours WHERE hour > now()`;
    expect(await postgres.psql(url, hours)).toBe('0');
    const tomorrow = `SET used_at = now() + interval '1 day'`;
    await postgres.psql(
      url,
      `SET search_path TO envelope_sidecar; UPDATE key_uses ${tomorrow}; UPDATE previous_uses ${tomorrow}`,
    );
    await use(began);
    expect(await uses()).toEqual([began, began]);
  });

  test('records the use of a grace for that grace only', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const graceUntil = (until: number) =>
      storedAccount('acme', {
        encryption: {
          test: storedEncryption('acme', 'test', {
            previous: { credentials: undefined, until, lastUsedAt: undefined },
          }),
        },
      });
    await put(store, graceUntil(noon));
    // A change by hand may give the time more digits than a Date has.
    const digits = `UPDATE envelope_sidecar.encryption SET previous_until = previous_until + interval '987 microseconds'`;
    await postgres.psql(url, digits);
    const recorder = recorderAt(url);
    const lastUsed = async (): Promise<unknown> => (await store.read('acme'))?.encryption.test?.previous?.lastUsedAt;
    recorder.previous('acme', 'test', noon + 1, noon - 5);
    await recorder.write();
    expect(await lastUsed()).toBeUndefined();
    recorder.previous('acme', 'test', noon, noon - 4);
    await recorder.write();
    expect(await lastUsed()).toBe(noon - 4);
    // The new grace period has other credentials, because each call of `graceUntil` seals them again.
    await put(store, graceUntil(noon + 9));
    expect(await lastUsed()).toBeUndefined();
    recorder.previous('acme', 'test', noon + 9, noon - 3);
    await recorder.write();
    expect(await lastUsed()).toBe(noon - 3);
  });

  test('keeps the use of a grace whose end is moved', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const encryption = storedEncryption('acme', 'test');
    const graceUntil = (until: number) => {
      const previous = { credentials: undefined, until, lastUsedAt: undefined };
      return storedAccount('acme', { encryption: { test: { ...encryption, previous } } });
    };
    await put(store, graceUntil(noon));
    // A change by hand may give the time more digits than a Date has.
    const digits = `UPDATE envelope_sidecar.encryption SET previous_until = previous_until + interval '987 microseconds'`;
    await postgres.psql(url, digits);
    const recorder = recorderAt(url);
    recorder.previous('acme', 'test', noon, noon - 4);
    await recorder.write();
    const lastUsed = async (): Promise<unknown> => (await store.read('acme'))?.encryption.test?.previous?.lastUsedAt;
    expect(await lastUsed()).toBe(noon - 4);
    await put(store, graceUntil(noon + 9));
    expect(await lastUsed()).toBe(noon - 4);
  });

  test('writes the first use in a grace early, and later ones with the rest', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const previous = { credentials: undefined, until: noon, lastUsedAt: undefined };
    await put(store, storedAccount('acme', { encryption: { test: storedEncryption('acme', 'test', { previous }) } }));
    const recorder = recorderAt(url);
    onTestFinished(() => recorder.stop());
    const lastUsed = async (): Promise<unknown> => (await store.read('acme'))?.encryption.test?.previous?.lastUsedAt;
    recorder.previous('acme', 'test', noon, noon - 5 * minute);
    await expect.poll(lastUsed, { timeout: 15_000, interval: 20 }).toBe(noon - 5 * minute);
    recorder.previous('acme', 'test', noon, noon - minute);
    await new Promise((resolve) => void setTimeout(resolve, 1_200));
    expect(await lastUsed()).toBe(noon - 5 * minute);
    await recorder.write();
    expect(await lastUsed()).toBe(noon - minute);
  });

  test('keeps uses that it could not write, and the later one of two', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'), storedAccount('globex'));
    const proxy = await postgres.proxy(url);
    const recorder = recorderAt(proxy.url);
    proxy.cut();
    recorder.key(key, noon);
    recorder.key(storedKey(keyNamed('globex')).id, noon);
    await recorder.write();
    recorder.key(key, noon + 7);
    proxy.mend();
    await recorder.write();
    expect((await store.read('acme'))?.keys[0]?.lastUsedAt).toBe(noon + 7);
    expect((await store.read('globex'))?.keys[0]?.lastUsedAt).toBe(noon);
  });

  /** The hours of all keys, as `key hour requests`. */
  const hoursIn = async (url: string): Promise<string[]> => {
    const sql = `SELECT key_id || ' ' || to_char(hour AT TIME ZONE 'UTC', 'DD HH24') || ' ' || requests
      FROM envelope_sidecar.key_hours ORDER BY key_id, hour`;
    return (await postgres.psql(url, sql)).split('\n').filter((row) => row !== '');
  };

  test('adds up the requests with each key by hour, across sidecars', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const [one, other] = [recorderAt(url), recorderAt(url)];
    for (const at of [noon, noon + hour - 1, noon + hour]) one.key(key, at);
    other.key(key, noon + 5);
    other.key('unknown-meanwhile', noon);
    await Promise.all([one.write(), other.write()]);
    // Everything has already been written, so this adds nothing.
    await one.write();
    one.key(key, noon + hour + 1);
    await one.write();
    expect(await hoursIn(url)).toEqual([`${key} ${day} 12 3`, `${key} ${day} 13 2`]);
  });

  test('loses no request while the database is away, and counts none twice', async () => {
    const url = await postgres.createDatabase();
    const keys = Array.from({ length: 1_500 }, (_, i) => storedKey(keyNamed(`k${i}`)));
    await put(openStore(url), storedAccount('acme', { keys }));
    const proxy = await postgres.proxy(url);
    const recorder = recorderAt(proxy.url);
    for (const { id } of keys) recorder.key(id, noon);
    // The first 1,000 keys are written; the others are not.
    let written = 0;
    proxy.onSent = (data) => {
      if (!data.includes('key_hours')) return;
      written += 1;
      if (written === 2) proxy.cut();
    };
    await recorder.write();
    proxy.onSent = undefined;
    recorder.key(keys[0]?.id ?? '', noon);
    recorder.key(keys.at(-1)?.id ?? '', noon);
    proxy.mend();
    await recorder.write();
    const counts = new Map((await hoursIn(url)).map((row) => [row.split(' ')[0], row.split(' ')[3]]));
    expect(counts.size).toBe(1_500);
    const twice = new Set([keys[0]?.id, keys.at(-1)?.id]);
    expect([...counts].filter(([id, count]) => count !== (twice.has(id) ? '2' : '1'))).toEqual([]);
  });

  test('keeps the requests of six hours while the database is away', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const proxy = await postgres.proxy(url);
    const recorder = recorderAt(proxy.url);
    proxy.cut();
    for (let i = 0; i < 8; i += 1) {
      recorder.key(key, noon + i * hour);
      await recorder.write();
    }
    proxy.mend();
    await recorder.write();
    expect(await hoursIn(url)).toEqual([14, 15, 16, 17, 18, 19].map((each) => `${key} ${day} ${each} 1`));
  });

  test('deletes counts that are older than 30 days, with the first write and once an hour', async () => {
    const url = await postgres.createDatabase();
    await put(openStore(url), storedAccount('acme'));
    const insertOld = () =>
      postgres.psql(
        url,
        `INSERT INTO envelope_sidecar.key_hours SELECT '${key}', now() - days * interval '1 day', 1
          FROM unnest(ARRAY[29.9, 30.1, 400]) AS days ON CONFLICT DO NOTHING`,
      );
    const count = () => postgres.psql(url, 'SELECT count(*) FROM envelope_sidecar.key_hours');
    const recorder = recorderAt(url);
    await insertOld();
    await recorder.write();
    expect(await count()).toBe('1');
    await postgres.psql(url, 'DELETE FROM envelope_sidecar.key_hours');
    await insertOld();
    for (let i = 0; i < 59; i += 1) await recorder.write();
    expect(await count()).toBe('3');
    await recorder.write();
    expect(await count()).toBe('1');
  });

  test('returns the requests of 30 days by day; the last day ends with the current hour', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    await put(store, storedAccount('acme'));
    const recorder = recorderAt(url);
    // This write deletes old counts; the next one does not.
    await recorder.write();
    const now = noon + 30 * minute;
    for (const at of [now, noon - 23 * hour, noon - 24 * hour, noon - 719 * hour, noon - 720 * hour, noon + hour]) {
      recorder.key(key, at);
    }
    await recorder.write();
    const days = (await store.dailyUses('', [key, 'unknown'], now)).get(key);
    expect(days).toHaveLength(30);
    expect(days?.slice(-2)).toEqual([1, 2]);
    expect(days?.[0]).toBe(1);
    expect(days?.reduce((sum, each) => sum + each)).toBe(4);
    expect((await store.dailyUses('', ['unknown'], now)).size).toBe(0);
  });

  test('writes 2,000 keys with one call', async () => {
    const url = await postgres.createDatabase();
    const store = openStore(url);
    const keys = Array.from({ length: 2_000 }, (_, i) => storedKey(keyNamed(`k${i}`)));
    await put(store, storedAccount('acme', { keys }));
    const recorder = recorderAt(url);
    for (const { id } of keys) recorder.key(id, noon);
    await recorder.write();
    const used = (await store.read('acme'))?.keys.filter(({ lastUsedAt }) => lastUsedAt === noon);
    expect(used).toHaveLength(2_000);
  });
});
