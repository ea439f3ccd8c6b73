import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { lockPath } from './lock.ts';
import { trailPath } from './trail.ts';

/**
 * The first path that a change of the accounts would write and this process may not: the file is often on a read-only mount, and its trail
 * may belong to whoever ran a command. The change itself reports other failures.
 */
export function findReadOnly(file: string): string | undefined {
  try {
    const path = realpathSync(file);
    return [dirname(path), path, lockPath(path), trailPath(path)].find((each) => existsSync(each) && isReadOnly(each));
  } catch {
    return undefined;
  }
}

function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return ['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
