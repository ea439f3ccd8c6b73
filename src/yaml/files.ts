import { isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';
import { WrongValue } from '../input/wrong-value.ts';

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  EACCES: 'permission denied',
};

/** Reads the files of one configuration and remembers which. */
export class Files {
  /** Absolute paths of all files read or tried, for watching. */
  readonly seen = new Set<string>();

  /** A file's text. Throws `WrongValue` if it cannot be read as UTF-8. */
  read(path: string): string {
    const absolute = resolve(path);
    this.seen.add(absolute);
    const bytes = readBytes(absolute);
    // What a symbolic link leads to may be replaced in its own folder, where nothing of the link is to be seen.
    this.seen.add(realPathOf(absolute));
    if (!isUtf8(bytes)) throw new WrongValue('cannot read the file: it is not UTF-8');
    return bytes.toString();
  }
}

/**
 * The bytes of a regular file. Anything else is not read: a FIFO or a device could block for ever.
 *
 * @throws WrongValue if the path leads to something else
 * @throws the system's error if the file cannot be read
 */
export function readRegularFile(path: string): Buffer {
  // Before it is opened, because opening a device may already change something.
  expectRegular(statSync(path));
  // A FIFO put there in the meantime must not block the call.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    expectRegular(fstatSync(file));
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

function expectRegular(stats: Stats): void {
  if (stats.isFile()) return;
  throw new WrongValue(`cannot read the file: it is ${stats.isDirectory() ? 'a directory' : 'not a regular file'}`);
}

function readBytes(path: string): Buffer {
  try {
    return readRegularFile(path);
  } catch (error) {
    if (error instanceof WrongValue) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new WrongValue(`cannot read the file: ${reasons[code] ?? code}`);
  }
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Gone since it was read: that is a change which will be seen.
    return path;
  }
}

/** How a path is shown: relative to the working directory where it is below it, otherwise as it is. */
export function displayName(path: string): string {
  const name = relative('', path);
  return name === '' || name.startsWith('..') || isAbsolute(name) ? path : name;
}
