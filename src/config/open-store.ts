import { FileStore } from '../accounts/file-store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { Vault } from '../accounts/vault.ts';
import type { Env } from '../yaml/values.ts';
import type { StoreSettings } from './config.ts';

/** The store of a configuration, and what its credentials are sealed with. Nothing is opened before it is needed. */
export function openStore(settings: StoreSettings, env: Env): { readonly store: Store; readonly vault: Vault } {
  const vault = new Vault(settings.masterKeys);
  const store =
    settings.kind === 'file' ? new FileStore({ file: settings.file, env, vault }) : new PostgresStore(settings.url);
  return { store, vault };
}
