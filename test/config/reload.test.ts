import { dirname, join } from 'node:path';
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs';
import type * as FileSystem from 'node:fs';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { combine, type LoadResult } from '../../src/config/loaded.ts';
import type { RefusedStore } from '../../src/config/try-store.ts';
import { Reloader } from '../../src/config/reload.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { Env } from '../../src/yaml/values.ts';
import { accountsFile, Folder, globexEntry, MountedFolder, sidecarFile } from '../support/folder.ts';
import { keys } from '../support/sidecar.ts';
import { eventually } from '../support/eventually.ts';

/** If `fails` is set, creating a watch fails as if the system had no more watches. */
const watching = vi.hoisted(() => ({ fails: false }));

vi.mock('node:fs', async (load) => {
  const original = await load<typeof FileSystem>();
  const watch = (...args: Parameters<typeof original.watch>): FileSystem.FSWatcher => {
    if (watching.fails) throw Object.assign(new Error('no space left on device, watch'), { code: 'ENOSPC' });
    return original.watch(...args);
  };
  return { ...original, watch };
});

/** Follows one file with a reloader, and collects the results that the reloader hands over. */
class Followed {
  readonly reloader: Reloader;
  readonly applied: LoadResult[] = [];
  readonly log: object[] = [];
  /** The store that the last load refused. */
  refused: RefusedStore | undefined;
  loads = 0;
  readonly #file: string;

  constructor(file: string, env: Env = {}, running = 'accounts.yaml') {
    this.#file = file;
    this.reloader = new Reloader({
      file,
      env,
      running: () => ({
        type: 'file',
        file: join(dirname(file), running),
        masterKeys: [],
        auditKeys: [],
        maxKeyAge: undefined,
      }),
      unwrap: async ({ keys }) => keys,
      apply: (loaded) => {
        this.loads += 1;
        this.refused = loaded.refused;
        if (loaded.sidecar) this.applied.push(combine({ ...loaded, sidecar: loaded.sidecar }));
      },
      log: createLogger('info', { write: (line) => void this.log.push(JSON.parse(line) as object) }),
    });
    onTestFinished(() => this.reloader.stop());
  }

  /** Watches the current files, as the sidecar does at startup. */
  watch(): this {
    this.reloader.watch(loadConfig(this.#file, {}).files);
    return this;
  }

  /** Waits until the last result satisfies `test`, and returns that result. */
  async until(test: (last: LoadResult) => boolean): Promise<LoadResult> {
    return eventually(
      'the configuration is applied',
      () => this.applied.findLast((last, i) => i === this.applied.length - 1 && test(last)),
      {
        timeout: 20_000,
      },
    );
  }
}

const upstream = 'http://127.0.0.1:1';
const files = { 'sidecar.yaml': sidecarFile(upstream), 'accounts.yaml': accountsFile() };
const withKeys = (...apiKeys: readonly string[]): object => accountsFile(globexEntry(...apiKeys));

/** Returns a function that checks whether a result is valid and has this many API keys. */
const hasKeys =
  (count: number) =>
  (loaded: LoadResult): boolean =>
    loaded.ok && loaded.config.accounts.flatMap(({ keys }) => keys).length === count;

const hasPrefix =
  (prefix: string) =>
  (loaded: LoadResult): boolean =>
    loaded.ok && loaded.config.accounts[0]?.keys[0]?.prefix === prefix;

const problemsOf = (loaded: LoadResult): readonly string[] =>
  loaded.ok ? [] : loaded.problems.map(({ path, message }) => `${path} ${message}`);

/** A folder with two versions of the files, of which the second one has a key, and a link to the first one. */
function releases(): { readonly parent: Folder; readonly path: string } {
  const parent = new Folder({});
  for (const [name, apiKeys] of [
    ['1', []],
    ['2', [keys.globex]],
  ] as const) {
    mkdirSync(parent.file(name));
    parent.write({ [`${name}/sidecar.yaml`]: files['sidecar.yaml'] });
    parent.write({ [`${name}/accounts.yaml`]: withKeys(...apiKeys) });
  }
  symlinkSync('1', parent.file('current'));
  return { parent, path: parent.file('current/sidecar.yaml') };
}

function swapTo(parent: Folder, name: string): void {
  symlinkSync(name, parent.file('next'));
  renameSync(parent.file('next'), parent.file('current'));
}

describe('the configuration is loaded again after', () => {
  test('a file is written', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    folder.write({ 'accounts.yaml': withKeys(keys.globex) });
    await followed.until(hasKeys(1));
    folder.write({ 'accounts.yaml': withKeys(keys.globex, keys.globexPublic) });
    await followed.until(hasKeys(2));
  });

  test('a file is renamed over the old one, each time', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    for (const apiKeys of [[keys.globex], [keys.globex, keys.globexPublic], []]) {
      folder.replace({ 'accounts.yaml': withKeys(...apiKeys) });
      await followed.until(hasKeys(apiKeys.length));
    }
  });

  test('`..data` is swapped, as Kubernetes does, each time', async () => {
    const folder = new MountedFolder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    for (const apiKeys of [[keys.globex], [keys.globex, keys.globexPublic], []]) {
      folder.swap({ ...files, 'accounts.yaml': withKeys(...apiKeys) });
      await followed.until(hasKeys(apiKeys.length));
    }
  });

  test('`..data` of another folder is swapped, as with a Secret and a ConfigMap', async () => {
    const accounts = new MountedFolder({ 'accounts.yaml': accountsFile() });
    const file = accounts.file('accounts.yaml');
    const folder = new MountedFolder({ 'sidecar.yaml': sidecarFile(upstream, { accounts: { file } }) });
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    accounts.swap({ 'accounts.yaml': withKeys(keys.globex) });
    await followed.until(hasKeys(1));
  });

  test('a file with a secret is written', async () => {
    const [first, second] = [keys.globex, keys.globexPublic];
    const secret = new Folder({ key: `${first}\n` });
    const entry = { ...globexEntry(), keys: [{ id: 'k', key: { file: secret.file('key') }, createdAt: '2026-11-01' }] };
    const folder = new Folder({ ...files, 'accounts.yaml': accountsFile(entry) });
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    secret.write({ key: second });
    await followed.until((last) => last.ok && last.config.accounts[0]?.keys[0]?.prefix === 'pk_test_');
  });

  test('a file is removed and created again', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    unlinkSync(folder.file('accounts.yaml'));
    const missing = await followed.until((last) => !last.ok);
    expect(problemsOf(missing)).toEqual(['accounts.file cannot read the file: it does not exist']);
    folder.write({ 'accounts.yaml': withKeys(keys.globex) });
    await followed.until(hasKeys(1));
  });

  test('a file is written that an earlier change refers to', async () => {
    const other = new Folder({ 'accounts.yaml': withKeys(keys.globex) });
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    folder.write({ 'sidecar.yaml': sidecarFile(upstream, { accounts: { file: other.file('accounts.yaml') } }) });
    await followed.until((last) => last.files.has(other.file('accounts.yaml')));
    other.write({ 'accounts.yaml': withKeys(keys.globex, keys.globexPublic) });
    await followed.until(hasKeys(2));
  });

  test('a file is changed between the first load and the start of watching', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml'));
    const { files: read } = loadConfig(folder.file('sidecar.yaml'), {});
    folder.replace({ 'accounts.yaml': withKeys(keys.globex) });
    followed.reloader.watch(read);
    await followed.until(hasKeys(1));
  });

  test('a link above the files is swapped, to files that are older than the first load, before the start of watching', async () => {
    const { path, parent } = releases();
    const followed = new Followed(path);
    const { files: read } = loadConfig(path, {});
    swapTo(parent, '2');
    followed.reloader.watch(read);
    await followed.until(hasKeys(1));
  });

  test('a file changes constantly, and repeatedly while it keeps changing', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    const writing = setInterval(() => folder.replace({ 'accounts.yaml': withKeys(keys.globex) }), 10);
    onTestFinished(() => clearInterval(writing));
    await followed.until(hasKeys(1));
    const { loads } = followed;
    await eventually('the configuration is loaded again', () => followed.loads > loads + 2, { timeout: 20_000 });
  });

  test('its folder is replaced and a reload is requested, and after each later change', async () => {
    const { path, parent } = releases();
    const followed = new Followed(path).watch();
    swapTo(parent, '2');
    void followed.reloader.reload();
    await followed.until(hasKeys(1));
    parent.write({ '2/accounts.yaml': withKeys(keys.globex, keys.globexPublic) });
    await followed.until(hasKeys(2));
  });
});

describe('reload', () => {
  test('loads the files even without a change', async () => {
    const folder = new Folder({ ...files, 'accounts.yaml': withKeys(keys.globex) });
    const followed = new Followed(folder.file('sidecar.yaml'));
    void followed.reloader.reload();
    await followed.until(hasKeys(1));
  });

  test('loads once more if requested several times during another reload, and sees the last state', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml'));
    void followed.reloader.reload();
    folder.write({ 'accounts.yaml': withKeys(keys.globex) });
    for (let i = 0; i < 5; i += 1) void followed.reloader.reload();
    await eventually('the second configuration is applied', () => followed.applied.length === 2, { timeout: 20_000 });
    expect(followed.applied.map((each) => hasKeys(1)(each))[1]).toBe(true);
    // If there were a third load, it would be in progress by now.
    void followed.reloader.reload();
    await eventually('a third configuration is applied', () => followed.applied.length > 2, { timeout: 20_000 });
    expect(followed.applied).toHaveLength(3);
  });

  test('tries a refused store again, which no change to a file does, not even one after an invalid state', async () => {
    const folder = new Folder({ ...files, 'earlier.yaml': withKeys(keys.globex) });
    const followed = new Followed(folder.file('sidecar.yaml'), {}, 'earlier.yaml');
    const { reloader } = followed;
    await reloader.reload();
    const { refused } = followed;
    expect(refused).toMatchObject({ reason: 'the file has no accounts: reload once it has some', mayEnd: false });
    folder.write({ 'accounts.yaml': withKeys(keys.globex) });
    for (const content of [{ log: { level: 'debug' } }, { surplus: 1 }, { log: { level: 'warn' } }]) {
      const { loads } = followed;
      folder.write({ 'sidecar.yaml': sidecarFile(upstream, content) });
      await eventually('the configuration is loaded', () => followed.loads > loads, { timeout: 20_000 });
      expect(followed.refused).toEqual('surplus' in content ? undefined : refused);
    }
    await reloader.reload();
    expect(followed.refused).toBeUndefined();
    expect(followed.applied.at(-1)).toMatchObject({ ok: true });
  });

  test('reports all problems of an invalid state, and continues to watch', async () => {
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    folder.write({
      'sidecar.yaml': sidecarFile(upstream, { surplus: 1, log: { level: 'loud' } }),
      'accounts.yaml': { accounts: [{ id: 'a b' }] },
    });
    const invalid = await followed.until((last) => !last.ok);
    const expected = loadConfig(folder.file('sidecar.yaml'), {});
    expect(invalid).toEqual(expected);
    expect(problemsOf(invalid).length).toBeGreaterThanOrEqual(4);
    folder.write({ 'sidecar.yaml': files['sidecar.yaml'], 'accounts.yaml': withKeys(keys.globex) });
    await followed.until(hasKeys(1));
  });

  test('applies nothing after a stop', async () => {
    const folder = new Folder(files);
    const stopped = new Followed(folder.file('sidecar.yaml'));
    void stopped.reloader.reload();
    stopped.reloader.stop();
    const later = new Followed(folder.file('sidecar.yaml'));
    for (let i = 0; i < 2; i += 1) void later.reloader.reload();
    await eventually('the later reloader applies the change', () => later.applied.length === 2, { timeout: 20_000 });
    expect(stopped.applied).toEqual([]);
  });

  test('takes variables from the given environment', async () => {
    const folder = new Folder({ ...files, 'accounts.yaml': withKeys('${API_KEY}') });
    const followed = new Followed(folder.file('sidecar.yaml'), { API_KEY: keys.globexPublic });
    void followed.reloader.reload();
    const loaded = await followed.until(() => true);
    expect(loaded.ok && loaded.config.accounts[0]?.keys[0]?.prefix).toBe('pk_test_');
  });
});

test('a watched folder that is removed is reported, and is watched again when it is back', async () => {
  const folder = new Folder(files);
  const followed = new Followed(folder.file('sidecar.yaml')).watch();
  rmSync(folder.path, { recursive: true });
  const gone = await followed.until((last) => !last.ok);
  const missing = '. cannot read the file: it does not exist';
  expect(problemsOf(gone)).toEqual([missing, missing]);
  mkdirSync(folder.path);
  folder.write({ ...files, 'accounts.yaml': withKeys(keys.globex) });
  void followed.reloader.reload();
  await followed.until(hasKeys(1));
  folder.write({ 'accounts.yaml': accountsFile() });
  await followed.until(hasKeys(0));
});

describe('changes that no watch reports are seen within 30 seconds:', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
  });
  const wait = (): void => void vi.advanceTimersByTime(30_000);

  test.each([
    ['accounts.yaml', { 'accounts.yaml': withKeys(keys.globex) }, hasKeys(1)],
    ['sidecar.yaml', { 'sidecar.yaml': 'damaged' }, (last: LoadResult) => !last.ok],
    ['a file with a secret', { secret: keys.globexPublic }, hasPrefix('pk_test_')],
  ])('a change to %s where watching fails', async (_, change, isApplied) => {
    watching.fails = true;
    onTestFinished(() => void (watching.fails = false));
    const entry = { ...globexEntry(), keys: [{ id: 'k', key: { file: 'secret' }, createdAt: '2026-11-01' }] };
    const withSecret = { ...files, 'accounts.yaml': accountsFile(entry), secret: keys.globex };
    const folder = new Folder('secret' in change ? withSecret : files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    const warning = {
      level: 'warn',
      msg: 'a folder cannot be watched: changes are seen within 10 seconds instead of one',
      folder: folder.path,
      cause: 'ENOSPC',
    };
    wait();
    expect(followed.log).toEqual([expect.objectContaining(warning)]);
    folder.write(change);
    wait();
    await followed.until(isApplied);
    expect(followed.log).toHaveLength(1);
    expect(followed.applied).toHaveLength(1);
    wait();
    expect(followed.applied).toHaveLength(1);
  });

  test('each change once watching works again', async () => {
    watching.fails = true;
    onTestFinished(() => void (watching.fails = false));
    const folder = new Folder(files);
    const followed = new Followed(folder.file('sidecar.yaml')).watch();
    watching.fails = false;
    wait();
    folder.write({ 'accounts.yaml': withKeys(keys.globex) });
    await followed.until(hasKeys(1));
  });

  test.each([
    [
      'a folder that is replaced',
      (parent: Folder) => {
        renameSync(parent.file('current'), parent.file('old'));
        renameSync(parent.file('2'), parent.file('current'));
      },
    ],
    ['a link that is swapped above', (parent: Folder) => swapTo(parent, '2')],
  ])('%s, and at once each later change', async (name, swap) => {
    const parent = new Folder({});
    for (const version of ['1', '2']) {
      mkdirSync(parent.file(version));
      parent.write({ [`${version}/sidecar.yaml`]: files['sidecar.yaml'] });
      parent.write({ [`${version}/accounts.yaml`]: version === '1' ? accountsFile() : withKeys(keys.globex) });
    }
    if (name.includes('link')) symlinkSync('1', parent.file('current'));
    else renameSync(parent.file('1'), parent.file('current'));
    const followed = new Followed(parent.file('current/sidecar.yaml')).watch();
    swap(parent);
    wait();
    await followed.until(hasKeys(1));
    const msg =
      'a folder was replaced and its watcher did not report it: the change was noticed late, and the folder is watched again';
    const warning = { level: 'warn', msg, folder: parent.file('current') };
    expect(followed.log).toEqual([expect.objectContaining(warning)]);
    parent.write({ 'current/accounts.yaml': accountsFile() });
    await followed.until(hasKeys(0));
    expect(followed.log).toHaveLength(1);
  });
});
