import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { AccountsError } from '../accounts-error.ts';
import { fileError } from './failures.ts';
import { lockPath } from './lock.ts';
import { trailPath } from './trail.ts';

/**
 * Checks all paths that a change to the accounts must write. Returns the first one that this process may not write; undefined if there is
 * none. The file is often on a read-only mount, and its trail may belong to a different user who ran a command. Other failures are reported
 * by the change itself.
 */
export function findReadOnly(file: string): string | undefined {
  let tried = file;
  try {
    const path = realpathSync(file);
    const written = [dirname(path), path, lockPath(path), trailPath(path)];
    for (tried of written.filter((each) => existsSync(each))) accessSync(tried, constants.W_OK);
    return undefined;
  } catch (error) {
    const explained = fileError(tried, error);
    return explained instanceof AccountsError && explained.code === 'store_read_only' ? tried : undefined;
  }
}
