import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  realpathSync,
  statSync,
  type BigIntStats,
  type Stats,
} from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';
import { WrongValue } from '../input/value-types.ts';
import { cryptography } from '../cryptography.ts';

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  EACCES: permissionDenied(),
};

/** The reason shown for a file that may not be read. It names the user, because the user in the image, 65532, seldom owns mounted files. */
export function permissionDenied(): string {
  return `permission denied for user ${process.geteuid?.() ?? 'unknown'}`;
}

/** Maximum size of a file in bytes, which is many times the size of 10,000 accounts. */
const maxSize = 256 * 1_048_576;

/** Reads the files of one configuration and remembers their versions. */
export class Files {
  readonly #seen = new Map<string, string>();
  readonly #hash = createHash(cryptography.digest.algorithm);

  /** The versions of all files that were read or could not be read, before they were read, by absolute path. */
  get seen(): FileVersions {
    return this.#seen;
  }

  /** SHA-256 of the paths and the content of all files that were read, in hex. */
  get digest(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Reads the text of a file. @throws WrongValue if it cannot be read as UTF-8 */
  read(path: string): string {
    const absolute = resolve(path);
    this.#see(absolute);
    const bytes = readBytes(absolute);
    this.#hash.update(`${absolute}\0${bytes.length}\0`).update(bytes);
    // The target of a symbolic link may be replaced in its own folder. Watching the folder of the link would miss that.
    this.#see(resolveRealPath(absolute));
    if (!isUtf8(bytes)) throw new WrongValue('cannot read the file: it is not UTF-8');
    const text = bytes.toString();
    // The bytes may contain secrets, and Node reuses their memory without clearing it.
    bytes.fill(0);
    return text;
  }

  #see(path: string): void {
    if (!this.#seen.has(path)) this.#seen.set(path, readVersion(path));
  }
}

/** Versions of files, by absolute path. */
export type FileVersions = ReadonlyMap<string, string>;

/** Text that differs after each change to a file or to a link to it; empty if there is no file. */
export function readVersion(path: string): string {
  const stats = readStats(path);
  return stats === undefined ? '' : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ');
}

/** The state of a file or a folder; undefined if it does not exist or is not accessible, which loading reports. */
export function readStats(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

/**
 * Reads the bytes of a regular file. Nothing else is read, because a FIFO or a device could block forever.
 *
 * @throws WrongValue if it is not a regular file, or has more than 256 MiB
 * @throws the system's error if the file cannot be read
 */
export function readRegularFile(path: string): Buffer {
  // The file is checked before it is opened, because opening a device may have side effects.
  expectReadable(statSync(path));
  // Opening must not block if a FIFO has replaced the file in the meantime.
  using file = openFile(path, constants.O_RDONLY | constants.O_NONBLOCK);
  expectReadable(fstatSync(file.fd));
  return readFileSync(file.fd);
}

/** Opens a file for `using`, which closes it at the end of the block. If the file is new, only the owner may read or write it. */
export function openFile(path: string, flags: string | number): { readonly fd: number } & Disposable {
  const fd = openSync(path, flags, 0o600);
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}

function expectReadable(stats: Stats): void {
  if (stats.isFile()) {
    if (stats.size > maxSize) throw new WrongValue('cannot read the file: it has more than 256 MiB');
    return;
  }
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

function resolveRealPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // The file was removed after it was read, which the watch will notice.
    return path;
  }
}

/** Formats a path for messages: relative to the working directory if the path is below it. */
export function displayName(path: string): string {
  const name = relative('', path);
  return name === '' || name.startsWith('..') || isAbsolute(name) ? path : name;
}
