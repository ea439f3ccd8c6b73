import { execFileSync } from 'node:child_process';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Files, readRegularFile } from '../../src/yaml/files.ts';
import { WrongValue } from '../../src/input/value-types.ts';
import { filesIn } from '../config/files.ts';

describe('a file is read', () => {
  test('directly and through a link', () => {
    const folder = filesIn({ file: 'text' });
    symlinkSync('file', join(folder, 'link'));
    expect(readRegularFile(join(folder, 'file')).toString()).toBe('text');
    expect(new Files().read(join(folder, 'link'))).toBe('text');
  });

  test('if it is empty', () => {
    expect(readRegularFile(join(filesIn({ file: '' }), 'file'))).toHaveLength(0);
  });
});

describe('a file is refused without being read, so that nothing blocks,', () => {
  function expectRefused(path: string, reason: string): void {
    const message = `cannot read the file: it is ${reason}`;
    expect(() => readRegularFile(path)).toThrow(new WrongValue(message));
    expect(() => new Files().read(path)).toThrow(new WrongValue(message));
  }

  test('if it is a FIFO', () => {
    const path = join(filesIn({}), 'fifo');
    execFileSync('mkfifo', [path]);
    expectRefused(path, 'not a regular file');
  });

  test('if it is an endless device, or a link to one', () => {
    const link = join(filesIn({}), 'link');
    symlinkSync('/dev/zero', link);
    expectRefused('/dev/zero', 'not a regular file');
    expectRefused(link, 'not a regular file');
  });

  test('if it is a directory', () => expectRefused(filesIn({}), 'a directory'));
});

test('a missing file is reported with the error of the operating system', () => {
  const path = join(filesIn({}), 'none');
  expect(() => readRegularFile(path)).toThrow(expect.objectContaining({ code: 'ENOENT' }));
  expect(() => new Files().read(path)).toThrow(new WrongValue('cannot read the file: it does not exist'));
});

test('text that is not UTF-8 is refused', () => {
  const path = join(filesIn({}), 'latin1');
  writeFileSync(path, Buffer.from([0xe4]));
  expect(() => new Files().read(path)).toThrow(new WrongValue('cannot read the file: it is not UTF-8'));
});

test('a file may have at most 256 MiB', () => {
  const path = join(filesIn({ file: '' }), 'file');
  // The file is sparse, so it takes no blocks on the disk.
  truncateSync(path, 268_435_457);
  expect(() => readRegularFile(path)).toThrow(new WrongValue('cannot read the file: it has more than 256 MiB'));
  truncateSync(path, 268_435_456);
  expect(readRegularFile(path)).toHaveLength(268_435_456);
});
