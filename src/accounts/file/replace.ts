import { fchmodSync, fchownSync, fstatSync, fsyncSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { openFile } from '../../yaml/files.ts';

/** The version of a file, which is different after every change by any program; empty if there is no file. */
export function readVersion(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) return '';
  const { dev, ino, size, mtimeNs, ctimeNs } = stats;
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
}

/** Gives an open file the mode and the owner of the file `model`. */
export function copyRights(model: string, file: number): void {
  const { mode, uid, gid } = statSync(model);
  const own = fstatSync(file);
  if (own.uid !== uid || own.gid !== gid) fchownSync(file, uid, gid);
  fchmodSync(file, mode);
}

/** Another file to replace at the same time, and its new text. */
export interface Companion {
  readonly path: string;
  readonly text: string;
  /** The version of the file that the new text is based on; empty if there was no file. */
  readonly version: string;
}

/**
 * Replaces a file's text so that a reader, at any moment and after any crash, finds either the whole old text or the whole new one. Mode
 * and owner are kept. The caller must hold the file's lock.
 *
 * @param path    must not be a symbolic link, because the link itself would be replaced
 * @param version the version of the file that the new text is based on
 * @param companion a second file, which is replaced or created immediately after the first. It keeps its old text only if the process is
 *   killed, or the disk fails, between the two replacements
 * @returns false, with nothing changed, if one of the files no longer has its version
 * @throws the file system's error, with nothing changed
 */
export function replaceFile(path: string, text: string, version: string, companion?: Companion): boolean {
  const files = [{ path, text, version }, ...(companion === undefined ? [] : [companion])];
  try {
    // Everything that needs disk space is written before anything is replaced.
    for (const file of files) writeNew(createTemporaryName(file.path), file.text, path);
    if (files.some((file) => readVersion(file.path) !== file.version)) return false;
    for (const file of files) renameSync(createTemporaryName(file.path), file.path);
  } finally {
    for (const file of files) rmSync(createTemporaryName(file.path), { force: true });
  }
  syncFolder(dirname(path));
  return true;
}

/** The temporary path of a file's new text. The name is fixed, so crashes leave at most one file. There is only one writer at a time. */
function createTemporaryName(path: string): string {
  return join(dirname(path), `.${basename(path)}.new`);
}

function writeNew(written: string, text: string, model: string): void {
  rmSync(written, { force: true });
  using file = openFile(written, 'wx');
  writeFileSync(file.fd, text);
  copyRights(model, file.fd);
  fsyncSync(file.fd);
}

/** Flushes a folder to disk. Until then, a new or renamed file in it may not survive a power failure. */
export function syncFolder(folder: string): void {
  using file = openFile(folder, 'r');
  fsyncSync(file.fd);
}
