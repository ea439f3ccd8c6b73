import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  lstatSync,
  openSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { displayName } from '../../yaml/files.ts';
import { AccountsError } from '../accounts-error.ts';
import { copyRights } from './replace.ts';

/** The time between attempts to take a lock, in milliseconds. The process that tries most often is usually the next to get the lock. */
const interval = 20;
const urgentInterval = 2;
/** SQLITE_BUSY. */
const busy = 5;
/** SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_CANTOPEN and SQLITE_NOTADB. */
const unusable: ReadonlySet<unknown> = new Set([8, 11, 14, 26]);

/**
 * Locks a file for rewriting, and returns a function that releases the lock. The lock is an exclusive transaction on an empty SQLite
 * database next to the file. The kernel releases such a lock when its process ends, whereas a killed process would leave a plain lock file
 * behind.
 *
 * @param patience the longest wait for another writer, in milliseconds
 * @param urgent   whether to try more often than other waiting writers, to get the lock before them
 * @throws AccountsError `store_locked`, `store_invalid` if there is something else at the path of the lock, `store_unavailable` if the file
 *   system refuses to lock it; the file system's error if the lock cannot be made
 */
export async function lockFile(path: string, patience: number, urgent = false): Promise<() => void> {
  const lock = lockPath(path);
  makeLock(lock, path);
  // Opening a FIFO would block forever.
  if (!lstatSync(lock).isFile()) throw notALock(lock);
  const database = opened(lock);
  try {
    const step = urgent ? urgentInterval : interval;
    for (let waited = 0; !taken(database); waited += step) {
      if (waited >= patience) throw new AccountsError('store_locked', `another process is changing ${path}`);
      await pause(step);
    }
  } catch (error) {
    database.close();
    throw lockError(lock, error);
  }
  return () => database.close();
}

/** The path of a file's lock, which is next to the file. */
export function lockPath(path: string): string {
  return join(dirname(path), `.${basename(path)}.lock`);
}

function opened(lock: string): DatabaseSync {
  try {
    return new DatabaseSync(lock, { timeout: 0 });
  } catch (error) {
    throw notALock(lock, error);
  }
}

function lockError(lock: string, error: unknown): unknown {
  const { errcode } = error as { readonly errcode?: unknown };
  if (unusable.has(errcode)) return notALock(lock, error);
  if (!(error instanceof Error) || errcode === undefined) return error;
  // Network file systems refuse locks for reasons of their own, which SQLite reports as "disk I/O error".
  return new AccountsError('store_unavailable', `${displayName(lock)} cannot be locked: ${error.message}`, error);
}

function notALock(lock: string, cause?: unknown): AccountsError {
  return new AccountsError('store_invalid', `${displayName(lock)} cannot be used as a lock: remove it`, cause);
}

function taken(database: DatabaseSync): boolean {
  try {
    // The journal is kept in memory. On disk it would be another file, and there is never anything to roll back.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if ((error as { errcode?: unknown }).errcode === busy) return false;
    throw error;
  }
}

/**
 * The mode of a lock. Only users who may write the file may read or write its lock, because anyone who may read a lock can also hold it
 * and thereby prevent keys from being revoked.
 */
function readMode(path: string): number {
  const writers = statSync(path).mode & 0o222;
  return writers | (writers << 1);
}

/** Corrects the mode of an existing lock if this user owns the lock, because only the owner can change its mode. */
function closeToReaders(lock: string, path: string): void {
  const stats = lstatSync(lock);
  const mode = readMode(path);
  if (!stats.isFile() || (stats.mode & 0o777) === mode || stats.uid !== process.geteuid?.()) return;
  chmodSync(lock, mode);
}

/** Creates a lock that only users who may write the file can take. */
function makeLock(lock: string, path: string): void {
  // Throws if the user may not write the file, even if the user's rights to the folder are enough to replace the file.
  accessSync(path, constants.W_OK);
  let file: number;
  try {
    file = openSync(lock, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    closeToReaders(lock, path);
    return;
  }
  try {
    copyRights(path, file);
    fchmodSync(file, readMode(path));
  } catch (error) {
    // A lock with the wrong rights would keep out users who may write the file.
    rmSync(lock);
    throw error;
  } finally {
    closeSync(file);
  }
}
