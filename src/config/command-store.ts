import { FileStore } from '../accounts/file/store.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { Vault } from '../accounts/vault.ts';
import type { Env } from '../yaml/values.ts';
import type { StoreSettings } from './config.ts';

/**
 * The store of a command, which needs no directory, and the vault of its credentials. Files and connections are opened
 * on demand.
 */
export function openStore(settings: StoreSettings, env: Env): { readonly store: Store; readonly vault: Vault } {
  const { masterKeys } = settings;
  const vault = new Vault(masterKeys);
  if (settings.type === 'postgres') return { store: new PostgresStore(settings.url), vault };
  return { store: new FileStore({ file: settings.file, env, masterKeys }), vault };
}
