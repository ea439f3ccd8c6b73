import type * as FileSystem from 'node:fs';
import { expect, onTestFinished, test, vi } from 'vitest';
import { lockFile } from '../../../src/accounts/file/lock.ts';
import { replaceFile, readVersion } from '../../../src/accounts/file/replace.ts';
import { Trail } from '../../../src/accounts/file/trail.ts';
import { Folder } from '../../support/folder.ts';

/** The modes of files when they are opened for the first time, before they get the mode of the accounts file. */
const early = vi.hoisted(() => [] as number[]);

vi.mock('node:fs', async (load) => {
  const original = await load<typeof FileSystem>();
  return {
    ...original,
    openSync: (...args: Parameters<typeof FileSystem.openSync>): number => {
      const file = original.openSync(...args);
      const stats = original.fstatSync(file);
      if (stats.isFile()) early.push(stats.mode & 0o777);
      return file;
    },
  };
});

test('a new file is opened with mode 600 and only then gets the mode of the accounts file', async () => {
  const umask = process.umask(0);
  onTestFinished(() => void process.umask(umask));
  const folder = new Folder({ 'accounts.yaml': 'accounts: []' });
  const path = folder.file('accounts.yaml');
  const release = await lockFile(path, 0);
  onTestFinished(release);
  const event = { at: 0, actor: 'user:x', action: 'account_added', account: 'a', details: {} } as const;
  new Trail(path).append([event]);
  replaceFile(path, 'accounts: [] # new', readVersion(path), {
    path: folder.file('receipts'),
    text: '[]',
    version: '',
  });
  // These are the lock, the trail, and the two replaced files.
  expect(early).toEqual([0o600, 0o600, 0o600, 0o600]);
});
