import { WrongValue } from '../../input/value-types.ts';
import { displayName } from '../../yaml/files.ts';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';

const cannotWrite = 'make the change at the source of the file';

const failures: Readonly<Record<string, readonly [AccountsErrorCode, string]>> = {
  EROFS: ['store_read_only', `is on a read-only file system: ${cannotWrite}`],
  EACCES: ['store_read_only', `or its folder is not writable by this user: ${cannotWrite}`],
  EPERM: ['store_read_only', `belongs to another user or group: ${cannotWrite}, or as that user`],
  ENOSPC: ['disk_full', 'was not changed: no space is left on the device'],
  EDQUOT: ['disk_full', 'was not changed: the disk quota is used up'],
  ENOENT: ['store_unavailable', 'does not exist'],
};

/**
 * Turns an error from an operation on an accounts file into one that tells the operator the cause. Returns unknown errors unchanged.
 *
 * @param name the name of the file
 */
export function fileError(name: string, error: unknown): unknown {
  if (error instanceof AccountsError) return error;
  if (error instanceof WrongValue) return new AccountsError('store_unavailable', `${name}: ${error.message}`, error);
  if (!isSystemError(error)) return error;
  const known = failures[error.code];
  if (known !== undefined) return new AccountsError(known[0], `${name} ${known[1]}`, error);
  const other = error.path === undefined ? name : displayName(error.path);
  return new AccountsError('store_unavailable', `${other} cannot be used: ${error.code}`, error);
}

/** Whether an error comes from a system call, such as one to the file system. */
export function isSystemError(error: unknown): error is { readonly code: string; readonly path?: string } {
  return error instanceof Error && 'syscall' in error && 'code' in error && typeof error.code === 'string';
}
