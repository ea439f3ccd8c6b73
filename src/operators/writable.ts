import { access, constants, realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StoreSettings } from '../config/config.ts';

/**
 * Whether accounts can be changed here. An accounts' file is often on a read-only mount. A change replaces the file, so
 * write access to its folder is checked. The change itself reports other failures.
 */
export async function isWritable(store: StoreSettings): Promise<boolean> {
  if (store.kind === 'postgres') return true;
  try {
    await access(dirname(await realpath(store.file)), constants.W_OK);
    return true;
  } catch (error) {
    return !['EROFS', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
