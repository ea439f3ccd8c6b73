import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { lockFile } from '../../../src/accounts/file/lock.ts';
import { replaceFile, readVersion } from '../../../src/accounts/file/replace.ts';
import { Folder } from '../../support/folder.ts';

const writer = fileURLToPath(new URL('file-writer.ts', import.meta.url));
const lockModule = fileURLToPath(new URL('../../../src/accounts/file/lock.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;

describe('replacing a file', () => {
  test('writes the new text and leaves no other file', () => {
    const folder = new Folder({ file: 'old' });
    const path = folder.file('file');
    expect(replaceFile(path, 'new', readVersion(path))).toBe(true);
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(readdirSync(folder.path)).toEqual(['file']);
  });

  test.each([0o600, 0o640, 0o664])('keeps its mode: %o', (mode) => {
    const path = new Folder({ file: 'old' }).file('file');
    chmodSync(path, mode);
    replaceFile(path, 'new', readVersion(path));
    expect(statSync(path).mode & 0o7777).toBe(mode);
  });

  test.each([0o600, 0o640])('never opens the file, its companion or its lock to other users: %o', async (mode) => {
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const folder = new Folder({ file: 'old' });
    const path = folder.file('file');
    chmodSync(path, mode);
    const release = await lockFile(path, 0);
    replaceFile(path, 'new', readVersion(path), { path: folder.file('more'), text: 'x', version: '' });
    release();
    const modes = ['file', 'more', '.file.lock'].map((name) => statSync(folder.file(name)).mode & 0o777);
    expect(modes).toEqual([mode, mode, 0o600]);
  });

  test.skipIf(!isRoot)('keeps its owner, whichever user rewrites it', () => {
    const path = new Folder({ file: 'old' }).file('file');
    chownSync(path, 12_345, 23_456);
    replaceFile(path, 'new', readVersion(path));
    expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 23_456 });
  });

  test('is refused if the file has changed since the text was made', () => {
    const folder = new Folder({ file: 'old' });
    const path = folder.file('file');
    const version = readVersion(path);
    writeFileSync(path, 'own');
    expect(replaceFile(path, 'new', version)).toBe(false);
    expect(readFileSync(path, 'utf8')).toBe('own');
    expect(readdirSync(folder.path)).toEqual(['file']);
  });

  test('is detected by the version even if length and modification time are the same', () => {
    const path = new Folder({ file: 'old' }).file('file');
    // Use a whole second, because other times cannot be restored to the nanosecond.
    utimesSync(path, 1_000_000_000, 1_000_000_000);
    const version = readVersion(path);
    writeFileSync(path, 'own');
    utimesSync(path, 1_000_000_000, 1_000_000_000);
    expect(readVersion(path)).not.toBe(version);
  });

  test('replaces a companion file too, which may be new', () => {
    const folder = new Folder({ file: 'old' });
    const path = folder.file('file');
    chmodSync(path, 0o640);
    for (const text of ['first', 'second']) {
      const beside = { path: folder.file('beside'), text, version: readVersion(folder.file('beside')) };
      expect(replaceFile(path, `new ${text}`, readVersion(path), beside)).toBe(true);
      expect(readFileSync(path, 'utf8')).toBe(`new ${text}`);
      expect(readFileSync(folder.file('beside'), 'utf8')).toBe(text);
      expect(statSync(folder.file('beside')).mode & 0o7777).toBe(0o640);
    }
    for (const changed of ['file', 'beside']) {
      const version = readVersion(path);
      const beside = { path: folder.file('beside'), text: 'third', version: readVersion(folder.file('beside')) };
      writeFileSync(folder.file(changed), 'own');
      expect(replaceFile(path, 'new', version, beside)).toBe(false);
      expect(readFileSync(folder.file('beside'), 'utf8')).toBe(changed === 'file' ? 'second' : 'own');
    }
    expect(readdirSync(folder.path).toSorted()).toEqual(['beside', 'file']);
  });

  test('works although a killed process has left its temporary files', () => {
    const folder = new Folder({ file: 'old', '.file.new': 'half' });
    chmodSync(folder.file('.file.new'), 0o400);
    replaceFile(folder.file('file'), 'new', readVersion(folder.file('file')));
    expect(readFileSync(folder.file('file'), 'utf8')).toBe('new');
    expect(readdirSync(folder.path)).toEqual(['file']);
  });

  test('leaves a complete file at any moment, however often the writer is killed', async () => {
    const path = new Folder({ file: 'line 0\n'.repeat(20_000) }).file('file');
    for (let round = 0; round < 25; round++) {
      const child = spawn(process.execPath, [writer, path], { stdio: ['ignore', 'pipe', 'inherit'] });
      onTestFinished(() => void child.kill('SIGKILL'));
      await once(child.stdout, 'data');
      const exited = once(child, 'exit');
      const seen = new Set<string>();
      while (seen.size < 3) {
        const text = readFileSync(path, 'utf8');
        const [line = ''] = text.split('\n', 1);
        expect(line).toMatch(/^line \d+$/);
        expect(text === `${line}\n`.repeat(20_000)).toBe(true);
        seen.add(line);
        await new Promise((resolve) => void setTimeout(resolve, 1));
      }
      child.kill('SIGKILL');
      await exited;
      const text = readFileSync(path, 'utf8');
      const [line = ''] = text.split('\n', 1);
      expect(text === `${line}\n`.repeat(20_000)).toBe(true);
      // The lock was released when the process ended.
      (await lockFile(path, 0))();
    }
  });
});

/**
 * Takes and releases the lock of a file as another user.
 *
 * @throws Error with the output of that process
 */
function lockAsOther(path: string): void {
  const script = `import { lockFile } from ${JSON.stringify(lockModule)};
    (await lockFile(${JSON.stringify(path)}, 0))();`;
  const user = { uid: 65_534, gid: 65_534, stdio: 'pipe' } as const;
  execFileSync(process.execPath, ['--input-type=module', '-e', script], user);
}

describe('the lock of a file', () => {
  test('is exclusive, and the next caller waits for it', async () => {
    const path = new Folder({ file: '' }).file('file');
    const release = await lockFile(path, 0);
    await expect(lockFile(path, 0)).rejects.toMatchObject({ code: 'store_locked' });
    const next = lockFile(path, 10_000);
    release();
    (await next)();
  });

  test('is exclusive between processes', async () => {
    const path = new Folder({ file: '' }).file('file');
    const child = spawn(process.execPath, [writer, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    await expect(lockFile(path, 100)).rejects.toMatchObject({
      code: 'store_locked',
      message: `another process is changing ${path}`,
    });
    child.kill('SIGKILL');
    (await lockFile(path, 10_000))();
  });

  test('that the file system refuses makes the store unavailable, and nothing stays open', async () => {
    const folder = new Folder({ file: '' });
    // What SQLite reports if a network file system refuses a lock with ESTALE.
    const refused = Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 3_850 });
    const exec = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(() => {
      throw refused;
    });
    onTestFinished(() => exec.mockRestore());
    await expect(lockFile(folder.file('file'), 0)).rejects.toMatchObject({
      code: 'store_unavailable',
      message: `${folder.file('.file.lock')} cannot be locked: disk I/O error`,
    });
    exec.mockRestore();
    (await lockFile(folder.file('file'), 0))();
  });

  test('is free if only the lock file exists', async () => {
    const folder = new Folder({ file: '', '.file.lock': '' });
    (await lockFile(folder.file('file'), 0))();
    expect(existsSync(folder.file('.file.lock'))).toBe(true);
  });

  test.skipIf(!isRoot)('can be taken by every user who may write the file', async () => {
    const folder = new Folder({ file: '' });
    chmodSync(folder.path, 0o777);
    chmodSync(folder.file('file'), 0o660);
    chownSync(folder.file('file'), 65_534, 65_534);
    (await lockFile(folder.file('file'), 0))();
    expect(statSync(folder.file('.file.lock'))).toMatchObject({ uid: 65_534, gid: 65_534 });
    expect(statSync(folder.file('.file.lock')).mode & 0o777).toBe(0o660);
    lockAsOther(folder.file('file'));
    chmodSync(folder.file('file'), 0o600);
    chownSync(folder.file('file'), 0, 0);
    expect(() => lockAsOther(folder.file('file'))).toThrow('EACCES');
  });

  test.each([
    [0o644, 0o600],
    [0o664, 0o660],
    [0o640, 0o600],
  ])('cannot be held by users who may only read the file: %o', async (mode, expected) => {
    // A lock file that an earlier version has created has the mode of the locked file.
    for (const old of [undefined, mode]) {
      const folder = new Folder(old === undefined ? { file: '' } : { file: '', '.file.lock': '' });
      chmodSync(folder.file('file'), mode);
      if (old !== undefined) chmodSync(folder.file('.file.lock'), old);
      (await lockFile(folder.file('file'), 0))();
      expect(statSync(folder.file('.file.lock')).mode & 0o777).toBe(expected);
    }
  });

  test.skipIf(!isRoot)(
    'leaves no lock file with the wrong owner if the user cannot give it to the owner of the file',
    () => {
      const folder = new Folder({ file: '' });
      chmodSync(folder.path, 0o777);
      chmodSync(folder.file('file'), 0o666);
      expect(() => lockAsOther(folder.file('file'))).toThrow('EPERM');
      expect(readdirSync(folder.path)).toEqual(['file']);
    },
  );
});
