import { spawnSync } from 'node:child_process';
import fs, {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { enableEncryption, requireAccount, newAccount } from '../../../src/accounts/changes.ts';
import { lockFile } from '../../../src/accounts/file/lock.ts';
import { Operations } from '../../../src/accounts/operations.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import type { AuditEvent, Decide, Store } from '../../../src/accounts/store.ts';
import { parseMasterKeys } from '../../../src/accounts/master-key.ts';
import { Vault } from '../../../src/accounts/vault.ts';
import { eventually } from '../../support/eventually.ts';
import { Folder, sidecarFile } from '../../support/folder.ts';
import { mayMount, Mount } from '../../support/mount.ts';
import { describeStore, type Storage } from '../store-suite.ts';

async function makeStorage(): Promise<Storage> {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  return { open: () => storeOn(folder) };
}

function storeOn(folder: Folder, env: Record<string, string> = {}): Store {
  return new FileStore({ file: folder.file('accounts.yaml'), env });
}

/** Adds an account, and calls `meanwhile` during the decision. */
async function add(store: Store, id: string, meanwhile: () => void = () => {}): Promise<unknown> {
  return store.change([id], (found) => {
    meanwhile();
    return { accounts: [newAccount(found.get(id), id, id)], events: [eventOf(id)], result: undefined };
  });
}

function eventOf(account: string): AuditEvent {
  return { at: 0, actor: 'user:ana', action: 'account_added', account, details: {} };
}

async function events(store: Store): Promise<readonly AuditEvent[]> {
  const found: AuditEvent[] = [];
  for await (const { position: _, ...each } of store.events({ after: 0 })) found.push(each);
  return found;
}

async function deactivate(store: Store, id: string): Promise<unknown> {
  return store.change([id], (found) => ({
    accounts: [{ ...requireAccount(found.get(id), id), active: false }],
    events: [],
    result: undefined,
  }));
}

function text(folder: Folder): string {
  return readFileSync(folder.file('accounts.yaml'), 'utf8');
}

const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
const one = 'accounts:\n  - { id: a, name: A }\n';
const added = `${one}  - id: b\n    name: b\n    active: true\n    keys: []\n`;

describeStore('a file', makeStorage);

describe('the file store', () => {
  test('rewrites the target of a symbolic link and keeps the link', async () => {
    const folder = new Folder({});
    mkdirSync(folder.file('data'));
    writeFileSync(folder.file('data/real.yaml'), one);
    symlinkSync('data/real.yaml', folder.file('accounts.yaml'));
    await add(storeOn(folder), 'b');
    expect(lstatSync(folder.file('accounts.yaml')).isSymbolicLink()).toBe(true);
    expect(readFileSync(folder.file('data/real.yaml'), 'utf8')).toBe(added);
  });

  test.each(['while the change is decided', 'right after the change is written'])(
    'makes a change in the file to which a link leads, even if the link is swapped %s',
    async (when) => {
      const folder = new Folder({ 'before.yaml': one, 'after.yaml': one });
      symlinkSync('before.yaml', folder.file('accounts.yaml'));
      symlinkSync('after.yaml', folder.file('link'));
      const { renameSync } = fs;
      const swap = (): void => {
        if (existsSync(folder.file('link'))) renameSync(folder.file('link'), folder.file('accounts.yaml'));
      };
      onTestFinished(() => {
        fs.renameSync = renameSync;
        syncBuiltinESMExports();
      });
      if (when !== 'while the change is decided') {
        fs.renameSync = (from, to) => {
          renameSync(from, to);
          if (to === folder.file('before.yaml')) swap();
        };
        syncBuiltinESMExports();
      }
      await add(storeOn(folder), 'b', when === 'while the change is decided' ? swap : undefined);
      expect(readFileSync(folder.file('after.yaml'), 'utf8')).toBe(added);
      expect(readFileSync(folder.file('before.yaml'), 'utf8')).toBe(
        when === 'while the change is decided' ? one : added,
      );
    },
  );

  test('reads references relative to its own path and keeps them', async () => {
    const reference = `accounts:
  - id: a
    name: A
    encryption: { test: { enabled: true, key: { file: aes }, iv: "\${IV}" } }
`;
    const folder = new Folder({ aes: `${'k'.repeat(32)}\n` });
    mkdirSync(folder.file('data'));
    writeFileSync(folder.file('data/real.yaml'), reference);
    symlinkSync('data/real.yaml', folder.file('accounts.yaml'));
    const store = storeOn(folder, { IV: 'i'.repeat(16) });
    expect((await store.read('a'))?.encryption.test?.credentials).toMatchObject({ key: 'k'.repeat(32) });
    await add(store, 'b');
    expect(text(folder)).toBe(reference + added.slice(one.length));
  });

  test('reads the file and its references again after a change by hand', async () => {
    const key = '\n    encryption: { test: { enabled: true, key: { file: aes }, iv: 0123456789abcdef } }\n';
    const plain = 'accounts:\n  - id: a\n    name: A\n';
    const folder = new Folder({ 'accounts.yaml': plain, aes: 'k'.repeat(32) });
    const store = storeOn(folder);
    await deactivate(store, 'a');
    await add(store, 'b');
    folder.write({ 'accounts.yaml': text(folder).replace('name: A', 'name: Z') });
    expect(await store.read('a')).toMatchObject({ name: 'Z', active: false });
    folder.write({ 'accounts.yaml': plain.trimEnd() + key });
    expect((await store.read('a'))?.encryption.test?.credentials?.key).toBe('k'.repeat(32));
    folder.write({ aes: 'l'.repeat(32) });
    expect((await store.read('a'))?.encryption.test?.credentials?.key).toBe('l'.repeat(32));
  });

  test('has the same accounts after a change as a new reader', async () => {
    const folder = new Folder({ 'accounts.yaml': 'accounts:\n  - id: a\n    name: A\n  - id: b\n    name: B\n' });
    const store = storeOn(folder);
    await add(store, 'c');
    await deactivate(store, 'b');
    const accounts = async (from: Store) => Promise.all(['a', 'b', 'c'].map((id) => from.read(id)));
    expect(await accounts(store)).toEqual(await accounts(storeOn(folder)));
    expect(await accounts(store)).toMatchObject([{ active: true }, { active: false }, { name: 'c' }]);
  });

  test('reads the file again and repeats the decision if it is changed by hand meanwhile', async () => {
    const folder = new Folder({ 'accounts.yaml': one });
    const store = storeOn(folder);
    let times = 0;
    await add(store, 'b', () => {
      times += 1;
      if (times === 1) folder.write({ 'accounts.yaml': one.replace('A }', 'By hand }') });
    });
    expect(times).toBe(2);
    expect(text(folder)).toBe(added.replace('A }', 'By hand }'));
    expect(await events(store)).toEqual([eventOf('b')]);
  });

  test.each([
    ['an import', (store: Store, meanwhile: () => void) => add(store, 'b', meanwhile)],
    [
      'a rekey',
      (store: Store, meanwhile: () => void) =>
        Array.fromAsync(
          store.changeAll(
            (account) => {
              meanwhile();
              return { ...account, name: 'New' };
            },
            { ...eventOf('a'), account: undefined, action: 'master_key_changed' },
          ),
        ),
    ],
    [
      'a list',
      async (store: Store, meanwhile: () => void) => {
        for await (const _ of store.list()) meanwhile();
      },
    ],
    [
      'the trail',
      async (store: Store, meanwhile: () => void) => {
        for await (const _ of store.events({})) meanwhile();
      },
    ],
  ])('lets another process change an account in the middle of %s, without waiting', async (_, work) => {
    const folder = new Folder({ 'accounts.yaml': one, 'sidecar.yaml': sidecarFile('http://127.0.0.1:1') });
    const store = storeOn(folder);
    await add(store, 'c');
    let times = 0;
    await work(store, () => {
      times += 1;
      if (times > 1) return;
      const line = ['accounts', 'deactivate', 'a', '--config', folder.file('sidecar.yaml')];
      const { status, stderr } = spawnSync(process.execPath, [main, ...line], { encoding: 'utf8' });
      expect([status, stderr]).toEqual([0, expect.stringContaining('account_deactivated')]);
    });
    expect(times).toBeGreaterThan(0);
    expect(await storeOn(folder).read('a')).toMatchObject({ active: false });
    expect((await events(store)).filter(({ action }) => action === 'account_deactivated')).toHaveLength(1);
  });

  test.each([false, true])(
    'decides on a change again, with the lock held, if another writer was first (urgent: %s)',
    async (urgent) => {
      const folder = new Folder({ 'accounts.yaml': one });
      const path = folder.file('accounts.yaml');
      const release = await lockFile(path, 0);
      const isLocked: Promise<boolean>[] = [];
      const change = storeOn(folder).change(
        ['a'],
        (found) => {
          const take = async (): Promise<boolean> => {
            const free = await lockFile(path, 0);
            free();
            return false;
          };
          isLocked.push(take().catch(() => true));
          return {
            accounts: [{ ...requireAccount(found.get('a'), 'a'), active: false }],
            events: [],
            result: undefined,
          };
        },
        undefined,
        { urgent },
      );
      await delay(100);
      folder.write({ 'accounts.yaml': added });
      release();
      await change;
      expect(await Promise.all(isLocked)).toEqual([true, true]);
      expect(text(folder)).toContain('id: b');
      expect(text(folder)).toContain('active: false');
    },
  );

  test.each([false, true])('refuses a change without waiting for the lock (urgent: %s)', async (urgent) => {
    const folder = new Folder({ 'accounts.yaml': one });
    const release = await lockFile(folder.file('accounts.yaml'), 0);
    onTestFinished(release);
    const refuse = (): never => {
      throw new Error('refused');
    };
    const refused = storeOn(folder).change(['a'], refuse, undefined, { urgent });
    await expect(refused).rejects.toThrow('refused');
    const nothing: Decide<string> = () => ({ accounts: [], events: [], result: 'nothing' });
    expect(await storeOn(folder).change(['a'], nothing, undefined, { urgent })).toMatchObject({ result: 'nothing' });
  });

  test('tries to take the lock for an urgent change several times as often as others, to make it before them', async () => {
    const folder = new Folder({ 'accounts.yaml': one });
    const release = await lockFile(folder.file('accounts.yaml'), 0);
    /** How many times each change has tried to take the lock, by its connection to the lock, in the order of the first attempts. */
    const attempts = new Map<unknown, number>();
    const exec = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (this: DatabaseSync): void {
      attempts.set(this, (attempts.get(this) ?? 0) + 1);
      throw Object.assign(new Error('locked'), { errcode: 5 });
    });
    onTestFinished(() => exec.mockRestore());
    const change = (id: string, urgent: boolean): Promise<unknown> => {
      const decide: Decide<undefined> = (found) => {
        return { accounts: [newAccount(found.get(id), id, id)], events: [], result: undefined };
      };
      return storeOn(folder).change([id], decide, undefined, { urgent });
    };
    const ordinary = change('ordinary', false);
    await eventually('it waits', () => attempts.size === 1);
    const urgent = change('urgent', true);
    await eventually('both wait', () => attempts.size === 2);
    const [before = 0, none = 0] = attempts.values();
    await eventually('the first one has tried ten times more', () => ([...attempts.values()][0] ?? 0) >= before + 10);
    expect([...attempts.values()][1]).toBeGreaterThan(none + 20);
    exec.mockRestore();
    release();
    await Promise.all([ordinary, urgent]);
  });

  test('gives up if the file is changed by hand again and again', async () => {
    const folder = new Folder({ 'accounts.yaml': one });
    const store = storeOn(folder);
    let times = 0;
    const change = add(store, 'b', () => folder.replace({ 'accounts.yaml': `${one}# ${(times += 1)}\n` }));
    await expect(change).rejects.toMatchObject({ code: 'store_changed' });
    expect(text(folder)).toBe(`${one}# 3\n`);
    expect(await events(store)).toEqual([]);
  });

  test.each([
    ['is not YAML', 'accounts: [', 'accounts.yaml:1:'],
    ['has a mistake', 'accounts: [{ id: a, nam: A, active: 1 }]', '(and 2 more: run "check")'],
    [
      'enables encryption without credentials',
      'accounts: [{ id: a, name: A, encryption: { live: { enabled: true } } }]',
      'encryption.live.key  missing',
    ],
    [
      'has half the previous credentials',
      `accounts: [{ id: a, name: A, encryption: { live: { enabled: false, previous: { iv: ${'i'.repeat(16)}, until: 2027-01-01 } } } }]`,
      'encryption.live.previous.key  missing',
    ],
  ])('neither reads nor changes a file that %s', async (_, content, message) => {
    const folder = new Folder({ 'accounts.yaml': content });
    const refused = { code: 'store_invalid', message: expect.stringContaining(message) as string };
    const store = storeOn(folder);
    await expect(store.read('a')).rejects.toMatchObject(refused);
    await expect(add(store, 'b')).rejects.toMatchObject(refused);
    await expect(store.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject(refused);
    expect(text(folder)).toBe(content);
  });

  test('adds no credentials in the clear to a file with sealed ones, and keeps the sealed ones', async () => {
    const before = sealedFile();
    const folder = new Folder({ 'accounts.yaml': before });
    const store = storeOn(folder);
    const enable = (environment: 'test' | 'live') =>
      store.change(['a'], (found) => {
        const account = requireAccount(found.get('a'), 'a');
        const options = { encoding: undefined, grace: undefined, replace: true };
        const enabled = enableEncryption(account, environment, options, 0, new Vault([]));
        return { accounts: [enabled.account], events: [], result: undefined };
      });
    for (const environment of ['test', 'live'] as const) {
      await expect(enable(environment)).rejects.toMatchObject({ code: 'master_key_missing' });
      expect(text(folder)).toBe(before);
    }
    await deactivate(store, 'a');
    expect(await store.read('a')).toMatchObject({ active: false });
  });

  test('is unavailable if the file does not exist', async () => {
    const store = storeOn(new Folder({}));
    const missing = {
      code: 'store_unavailable',
      message: expect.stringMatching(/accounts\.yaml does not exist$/) as string,
    };
    await expect(store.read('a')).rejects.toMatchObject(missing);
    await expect(add(store, 'b')).rejects.toMatchObject(missing);
  });

  test('refuses a change that would affect other accounts through an alias', async () => {
    const content = `accounts:
  - { id: a, name: A, encryption: { test: &test { enabled: true, key: &k ${'k'.repeat(32)}, iv: ${'i'.repeat(16)} } } }
  - { id: b, name: B, encryption: { test: *test } }
`;
    const folder = new Folder({ 'accounts.yaml': content });
    const store = storeOn(folder);
    const change = store.change(['a'], (found) => ({
      accounts: [
        enableEncryption(
          requireAccount(found.get('a'), 'a'),
          'test',
          { encoding: undefined, grace: undefined, replace: true },
          0,
          new Vault([]),
        ).account,
      ],
      events: [eventOf('a')],
      result: undefined,
    }));
    await expect(change).rejects.toMatchObject({
      code: 'store_invalid',
      message: expect.stringContaining('write out its aliases') as string,
    });
    expect(text(folder)).toBe(content);
    expect(await events(store)).toEqual([]);
  });

  test.skipIf(!mayMount)('reads a read-only file system, and says why it cannot change it', async () => {
    const folder = new Mount({ 'accounts.yaml': one }, 'size=64k');
    folder.protect();
    const store = storeOn(folder);
    expect((await store.read('a'))?.name).toBe('A');
    await expect(add(store, 'b')).rejects.toMatchObject({
      code: 'store_read_only',
      message: expect.stringMatching(/accounts\.yaml is on a read-only file system: make the change at/) as string,
    });
  });

  test.skipIf(!mayMount)('leaves the file unchanged on a full disk, and changes it after space is freed', async () => {
    const folder = new Mount({ 'accounts.yaml': one, ballast: 'x'.repeat(8_192) }, 'size=64k');
    const store = storeOn(folder);
    await deactivate(store, 'a');
    const before = text(folder);
    folder.fill();
    await expect(add(store, 'b')).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/accounts\.yaml was not changed: no space is left on the device$/) as string,
    });
    expect(text(folder)).toBe(before);
    expect(await events(store)).toEqual([]);
    const files = ['.accounts.yaml.lock', 'accounts.audit.jsonl', 'accounts.yaml', 'ballast', 'filler'];
    expect(readdirSync(folder.path).toSorted()).toEqual(files);
    writeFileSync(folder.file('ballast'), '');
    await add(store, 'b');
    expect((await store.read('b'))?.id).toBe('b');
  });

  test.skipIf(!mayMount)('leaves the file unchanged if the disk has no room for the lock', async () => {
    const folder = new Mount({ 'accounts.yaml': one }, 'size=64k,nr_inodes=2');
    await expect(add(storeOn(folder), 'b')).rejects.toMatchObject({ code: 'disk_full' });
    expect(text(folder)).toBe(one);
  });

  test.skipIf(!mayMount).each([
    ['the file', (folder: Folder) => chmodSync(folder.file('accounts.yaml'), 0o444)],
    ['its folder', (folder: Folder) => chmodSync(folder.path, 0o755)],
  ])('changes nothing if the user may not write %s', async (_, protect) => {
    const folder = new Folder({ 'accounts.yaml': one });
    chmodSync(folder.path, 0o777);
    chmodSync(folder.file('accounts.yaml'), 0o666);
    protect(folder);
    const fileStore = fileURLToPath(new URL('../../../src/accounts/file/store.ts', import.meta.url));
    const script = `
      import { FileStore } from ${JSON.stringify(fileStore)};
      const store = new FileStore({ file: process.argv[2], env: {} });
      const name = 'b';
      await store
        .change([name], () => ({ accounts: [{ id: name, name, active: true, keys: [], encryption: {} }], events: [] }))
        .catch(({ code, message }) => console.log(code, message));`;
    const program = new Folder({ 'program.mjs': script });
    chmodSync(program.path, 0o755);
    chmodSync(program.file('program.mjs'), 0o644);
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [program.file('program.mjs'), folder.file('accounts.yaml')],
      {
        uid: 65_534,
        gid: 65_534,
        encoding: 'utf8',
      },
    );
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^store_read_only .*accounts\.yaml or its folder is not writable by this user: make/);
    expect(text(folder)).toBe(one);
    expect(readdirSync(folder.path)).toEqual(['accounts.yaml']);
  });
});

test('a change waits for another one, in the same process and in another', async () => {
  const folder = new Folder({ 'accounts.yaml': one });
  const release = await lockFile(folder.file('accounts.yaml'), 0);
  const change = add(storeOn(folder), 'b');
  folder.write({ 'accounts.yaml': one.replace('name: A', 'name: Other') });
  release();
  await change;
  expect(text(folder)).toBe(added.replace('name: A', 'name: Other'));
});

function sealedFile(): string {
  const vault = new Vault(parseMasterKeys('00'.repeat(32)) ?? []);
  const place = { account: 'a', environment: 'test' } as const;
  const [key, iv] = [
    vault.wrap('k'.repeat(32), { ...place, member: 'key' }),
    vault.wrap('i'.repeat(16), { ...place, member: 'iv' }),
  ];
  return `accounts: [{ id: a, name: A, encryption: { test: { enabled: true, key: "${key}", iv: "${iv}" } } }]\n`;
}

test('tokens of accounts cannot issue keys if the file has 5,000 of them, but can revoke some, and operators can issue more', async () => {
  const keyOf = (i: number): object => ({
    id: `k${i}`,
    prefix: 'sk_test_',
    sha256: i.toString(16).padStart(64, '0'),
    createdAt: '2026-11-01',
  });
  const keysOf = (account: number): object[] => Array.from({ length: 1_000 }, (_, i) => keyOf(1_000 * account + i));
  const accounts = ['a', 'b', 'c', 'd', 'e', 'f'].map((id, i) => ({ id, name: id, keys: i < 5 ? keysOf(i) : [] }));
  const folder = new Folder({ 'accounts.yaml': JSON.stringify({ accounts }) });
  const store = storeOn(folder);
  const operations = new Operations({ store, vault: new Vault([]), clock: Date.now, audit: () => {} });
  const issue = async (ofAccount: boolean): Promise<unknown> =>
    operations
      .issueKey('f', { environment: 'test', kind: 'secret', lifetime: undefined }, { actor: 'token:f', ofAccount })
      .then(
        () => 'issued',
        ({ code }: { code: unknown }) => code,
      );
  expect(await issue(true)).toBe('too_many_keys');
  await operations.revokeKey('a', 'k0', { actor: 'token:a', ofAccount: true });
  expect(await issue(false)).toBe('issued');
});
