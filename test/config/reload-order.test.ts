import { createSecretKey, randomBytes } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { UnwrapKeys } from '../../src/config/load-in-thread.ts';
import type { WorkerTask } from '../../src/config/load-messages.ts';
import { createMasterKey } from '../../src/accounts/master-key.ts';
import type { LoadedFiles, ReloadedFiles } from '../../src/config/loaded.ts';
import { maxSettleTime, pollInterval, Reloader } from '../../src/config/reload.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { eventually } from '../support/eventually.ts';
import { readVersion, type FileVersions } from '../../src/yaml/files.ts';
import { Folder } from '../support/folder.ts';

/** The loads so far. The test ends each of them. */
const loads = vi.hoisted((): { task: WorkerTask; end: (loaded: Partial<LoadedFiles>) => void }[] => []);

vi.mock('../../src/config/load-in-thread.ts', () => ({
  LoadThread: class {
    end(): void {}
  },
  loadInThread: (task: WorkerTask) => {
    const { promise, resolve } = Promise.withResolvers<Partial<LoadedFiles>>();
    loads.push({ task, end: (loaded) => resolve({ files: versions(task.file), digests: {}, ...loaded }) });
    return promise;
  },
}));

/** These files as they are now. */
const versions = (...files: readonly string[]): FileVersions => new Map(files.map((file) => [file, readVersion(file)]));

const refused = { digest: 'a', reason: 'the database has no accounts', mayEnd: false };
const invalid = { sidecar: { ok: false, problems: [] } } as const;
const valid = { sidecar: { ok: true, value: {}, warnings: [] } } as unknown as Partial<LoadedFiles>;
const locked = {
  sidecar: {
    ok: true,
    value: { kms: {}, store: { masterKeys: [{ kcv: '0123456789', key: undefined }] } },
    warnings: [],
  },
} as unknown as Partial<LoadedFiles>;

function start() {
  loads.length = 0;
  const folder = new Folder({ 'sidecar.yaml': '' });
  const file = folder.file('sidecar.yaml');
  const running = { type: 'file', file, masterKeys: [], auditKeys: [] } as const;
  const log = createLogger('info', { write: () => {} });
  const applied: ReloadedFiles[] = [];
  const apply = (files: ReloadedFiles): void => void applied.push(files);
  const options = { file, env: {}, running: () => running, apply, log };
  const unwrap = vi.fn<UnwrapKeys>(async ({ keys }) => keys.map((key) => ({ ...key, problem: 'the KMS is away' })));
  const reloader = new Reloader({ ...options, unwrap });
  onTestFinished(() => reloader.stop());
  reloader.watch(versions(file));
  const load = async (index: number) => {
    await eventually(`load ${index} begins`, () => loads[index] !== undefined, { timeout: 5_000 });
    const { task, end } = loads[index] ?? { end: () => {} };
    return { refused: task?.refused, unwrapped: task?.unwrapped, end };
  };
  return {
    reloader,
    unwrap,
    load,
    applied,
    folder,
    change: () => folder.write({ 'sidecar.yaml': String(Math.random()) }),
  };
}

test('a change during the load that refuses a store does not make the reloader try the store again', async () => {
  const { reloader, load, change } = start();
  void reloader.reload();
  const first = await load(0);
  change();
  await delay(2 * maxSettleTime);
  first.end({ ...invalid, refused });
  expect((await load(1)).refused).toEqual(refused);
});

test('a change after an invalid state does not make the reloader try the store again', async () => {
  const { reloader, load, change } = start();
  void reloader.reload();
  (await load(0)).end({ ...invalid, refused });
  change();
  (await load(1)).end(invalid);
  change();
  expect((await load(2)).refused).toEqual(refused);
});

test('a reload during another load tries a refused store again, whatever is queued before it', async () => {
  const { reloader, load, change } = start();
  void reloader.reload();
  (await load(0)).end({ ...invalid, refused });
  change();
  const second = await load(1);
  expect(second.refused).toEqual(refused);
  change();
  await delay(2 * maxSettleTime);
  void reloader.reload();
  second.end({ ...invalid, refused });
  expect((await load(2)).refused).toBeUndefined();
});

test.each([
  ['a change', false],
  ['a reload', true],
])('if a KMS must first unwrap master keys, %s tries a refused store again: %s', async (_, isAsked) => {
  const { reloader, load, change } = start();
  void reloader.reload();
  (await load(0)).end({ ...invalid, refused });
  if (isAsked) void reloader.reload();
  else change();
  (await load(1)).end(locked);
  expect((await load(2)).refused).toEqual(isAsked ? undefined : refused);
});

test('the KMS is asked again at the next load for a master key that it could not unwrap', async () => {
  const { reloader, unwrap, load, change } = start();
  const openedKey = createMasterKey(createSecretKey(randomBytes(32)));
  unwrap.mockImplementationOnce(async ({ keys }) => [openedKey, ...keys.map((key) => ({ ...key, problem: 'away' }))]);
  void reloader.reload();
  (await load(0)).end(locked);
  const second = await load(1);
  expect(second.unwrapped).toHaveLength(2);
  second.end(invalid);
  change();
  const third = await load(2);
  expect(third.unwrapped).toEqual([openedKey]);
  third.end(locked);
  await load(3);
  expect(unwrap).toHaveBeenCalledTimes(2);
});

test('a file that the settings have named for the first time is read again if it changed during the load, in a folder that is watched already', async () => {
  const { reloader, load, folder } = start();
  folder.write({ 'second.yaml': 'before' });
  await delay(2 * maxSettleTime);
  loads.length = 0;
  void reloader.reload();
  const first = await load(0);
  const read = versions(folder.file('sidecar.yaml'), folder.file('second.yaml'));
  folder.write({ 'second.yaml': 'after' });
  // The file's event arrives while its name is unknown.
  await delay(100);
  first.end({ ...valid, files: read });
  await load(1);
});

test('files that were refused are read again at each poll, as the same ones, until they are valid', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { reloader, load, applied } = start();
  void reloader.reload();
  const results = [invalid, { ...valid, accounts: { ok: false, problems: [], revocable: [] } }, valid] as const;
  for (const [i, result] of results.entries()) {
    (await load(i)).end(result);
    await nextTurn();
    vi.advanceTimersByTime(pollInterval);
  }
  await nextTurn();
  expect(loads).toHaveLength(3);
  expect(applied.map(({ isRepeated }) => isRepeated)).toEqual([false, true, true]);
});

test('a configured database that is unavailable is tried again in parallel with other loads, and loaded when it is back', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const poll = (): void => void vi.advanceTimersByTime(pollInterval);
  const { reloader, load, change } = start();
  void reloader.reload();
  const away = { ...refused, mayEnd: true };
  (await load(0)).end({ ...invalid, refused: away });
  await nextTurn();
  poll();
  const attempt = await load(1);
  expect(attempt.refused).toBeUndefined();
  // The attempt does not delay other loads, and the next poll does not start a second attempt.
  poll();
  change();
  const other = await load(2);
  expect(other.refused).toEqual(away);
  other.end({ ...invalid, refused: away });

  // This attempt found a file that had become invalid in the meantime, so it says nothing about the database. The problem in the file has
  // already been reported.
  attempt.end(invalid);
  await nextTurn();
  poll();
  (await load(3)).end({ ...invalid, refused: away });
  await nextTurn();
  poll();
  const { end, refused: before } = await load(4);
  expect(before).toBeUndefined();
  end(valid);
  expect((await load(5)).refused).toBeUndefined();
  expect(loads).toHaveLength(6);
});

test('once a database is back, a different store that the files now name is not put into force by it', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { reloader, load, change } = start();
  void reloader.reload();
  (await load(0)).end({ ...invalid, refused: { ...refused, reason: 'the database does not respond', mayEnd: true } });
  await nextTurn();
  vi.advanceTimersByTime(pollInterval);
  const attempt = await load(1);
  change();
  const empty = { ...refused, digest: 'b' };
  (await load(2)).end({ ...invalid, refused: empty });
  attempt.end(valid);
  await delay(2 * maxSettleTime);
  expect(loads).toHaveLength(3);
  change();
  expect((await load(3)).refused).toEqual(empty);
});
