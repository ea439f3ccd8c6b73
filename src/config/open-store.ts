import { FileStore } from '../accounts/file/store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import { ThreadedFileStore } from '../accounts/file/threaded-store.ts';
import type { Store } from '../accounts/store.ts';
import { Vault } from '../accounts/vault.ts';
import type { Env } from '../yaml/values.ts';
import type { StoreSettings } from './config.ts';

/**
 * The store of a configuration, and what its credentials are sealed with. Nothing is opened before it is needed.
 *
 * @param options.besideTraffic whether requests are served by the same thread, which a large file must not hold up
 */
export function openStore(
  settings: StoreSettings,
  env: Env,
  options: { readonly besideTraffic: boolean },
): { readonly store: Store; readonly vault: Vault } {
  const vault = new Vault(settings.masterKeys);
  if (settings.kind === 'postgres') return { store: new PostgresStore(settings.url), vault };
  const { file, masterKeys } = settings;
  const Kind = options.besideTraffic ? ThreadedFileStore : FileStore;
  return { store: new Kind({ file, env, masterKeys }), vault };
}
