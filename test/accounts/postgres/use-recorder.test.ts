import { expect, onTestFinished, test } from 'vitest';
import { changePool } from '../../../src/accounts/postgres/clients.ts';
import { UseRecorder } from '../../../src/accounts/postgres/use-recorder.ts';
import { describeWithPostgres, usePostgres } from '../../support/postgres.ts';
import { keyNamed, openStore, put, storedAccount, storedEncryption, storedKey } from './fixtures.ts';

const noon = Date.parse('2026-11-01T12:00:00.000Z');
const minute = 60_000;
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
    const recorder = recorderAt(url);
    const lastUsed = async (): Promise<unknown> => (await store.read('acme'))?.encryption.test?.previous?.lastUsedAt;
    recorder.previous('acme', 'test', noon + 1, noon - 5);
    await recorder.write();
    expect(await lastUsed()).toBeUndefined();
    recorder.previous('acme', 'test', noon, noon - 4);
    await recorder.write();
    expect(await lastUsed()).toBe(noon - 4);
    await put(store, graceUntil(noon + 9));
    expect(await lastUsed()).toBeUndefined();
    recorder.previous('acme', 'test', noon + 9, noon - 3);
    await recorder.write();
    expect(await lastUsed()).toBe(noon - 3);
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

  test('keeps uses that it could not write, and of two the later one', async () => {
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
