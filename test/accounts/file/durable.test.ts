import type * as FileSystem from 'node:fs';
import { beforeEach, expect, test, vi } from 'vitest';
import { replaceFile, readVersion } from '../../../src/accounts/file/replace.ts';
import { FileStore } from '../../../src/accounts/file/store.ts';
import { Trail } from '../../../src/accounts/file/trail.ts';
import type { AuditEvent } from '../../../src/accounts/store.ts';
import { Folder } from '../../support/folder.ts';

/** The calls that decide what survives a power failure, in order. */
const calls = vi.hoisted(() => [] as string[]);

vi.mock('node:fs', async (load) => {
  const original = await load<typeof FileSystem>();
  const nameOf = (file: number): string =>
    original.fstatSync(file).isDirectory()
      ? 'the folder'
      : original.readlinkSync(`/proc/self/fd/${file}`).replace(/.*\//, '');
  return {
    ...original,
    fsyncSync: (file: number): void => {
      calls.push(`sync ${nameOf(file)}`);
      original.fsyncSync(file);
    },
    writeFileSync: (...args: Parameters<typeof FileSystem.writeFileSync>): void => {
      if (typeof args[0] === 'number') calls.push(`write ${nameOf(args[0])}`);
      original.writeFileSync(...args);
    },
    ftruncateSync: (file: number, length: number): void => {
      calls.push(`truncate ${nameOf(file)}`);
      original.ftruncateSync(file, length);
    },
    renameSync: (from: string, to: string): void => {
      calls.push('rename');
      original.renameSync(from, to);
    },
  };
});

beforeEach(() => void calls.splice(0));

const event: AuditEvent = { at: 1, actor: 'user:ana', action: 'account_added', account: 'a', details: {} };
const trail = 'accounts.audit.jsonl';

test('a file and its companion are synced before they are renamed, and their folder after', () => {
  const folder = new Folder({ file: 'old' });
  const path = folder.file('file');
  replaceFile(path, 'new', readVersion(path), { path: folder.file('beside'), text: 'x', version: '' });
  expect(calls).toEqual([
    'write .file.new',
    'sync .file.new',
    'write .beside.new',
    'sync .beside.new',
    'rename',
    'rename',
    'sync the folder',
  ]);
});

test('an event is synced, and the folder of a new trail, before its change is renamed into place', async () => {
  const folder = new Folder({ 'accounts.yaml': 'accounts: []\n' });
  const store = new FileStore({ file: folder.file('accounts.yaml'), env: {} });
  const change = [
    `write ${trail}`,
    `sync ${trail}`,
    'sync the folder',
    'write .accounts.yaml.new',
    'sync .accounts.yaml.new',
    'rename',
    'sync the folder',
  ];
  for (const id of ['a', 'b']) {
    calls.splice(0);
    const account = { id, name: id, active: true, keys: [], encryption: {} };
    await store.change([id], () => ({ accounts: [account], events: [event], result: undefined }));
    expect(calls).toEqual(id === 'a' ? change : change.toSpliced(2, 1));
  }
});

test('a torn last line is synced to its own file before it is removed', () => {
  const folder = new Folder({ 'accounts.yaml': '', [trail]: '{"at":"1970' });
  new Trail(folder.file('accounts.yaml')).append([event]);
  expect(calls).toEqual([
    `write ${trail}.torn`,
    `sync ${trail}.torn`,
    `truncate ${trail}`,
    `sync ${trail}`,
    `write ${trail}`,
    `sync ${trail}`,
    'sync the folder',
  ]);
});
