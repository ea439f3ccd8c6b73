import type * as FileSystem from 'node:fs';
import { expect, test, vi } from 'vitest';
import { replaceFile, versionOf } from '../../../src/accounts/file/replace.ts';
import { Folder } from '../../support/folder.ts';

/** The calls that decide what survives a power failure, in their order. */
const calls = vi.hoisted(() => [] as string[]);

vi.mock('node:fs', async (load) => {
  const original = await load<typeof FileSystem>();
  return {
    ...original,
    fsyncSync: (file: number): void => {
      calls.push(original.fstatSync(file).isDirectory() ? 'sync the folder' : 'sync a file');
      original.fsyncSync(file);
    },
    renameSync: (from: string, to: string): void => {
      calls.push('rename');
      original.renameSync(from, to);
    },
  };
});

test('a file and its companion are synced before they are renamed, and their folder after', () => {
  const folder = new Folder({ file: 'old' });
  const path = folder.file('file');
  replaceFile(path, 'new', versionOf(path), () => {}, { path: folder.file('beside'), text: 'x' });
  expect(calls).toEqual(['sync a file', 'sync a file', 'rename', 'rename', 'sync the folder']);
});
