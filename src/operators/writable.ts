import { access, constants, realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StoreSettings } from '../config/config.ts';

/**
 * Whether accounts can be changed here. An accounts' file is often mounted from elsewhere, read-only. It is replaced by a new
 * one, so that its folder counts; on any other failure a change says more than could be said here.
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
