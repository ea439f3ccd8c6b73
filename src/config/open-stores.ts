import { FileAccounts } from '../accounts/file/accounts.ts';
import { FileStore } from '../accounts/file/store.ts';
import type { OpenAccounts } from '../accounts/open-accounts.ts';
import { PostgresAccounts } from '../accounts/postgres/accounts.ts';
import type { Monitor } from '../accounts/postgres/monitor.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { Store } from '../accounts/store.ts';
import { Vault } from '../accounts/vault.ts';
import type { Env } from '../yaml/values.ts';
import type { Config, StoreSettings } from './config.ts';

export interface StoresDependencies {
  readonly env: Env;
  /** Epoch milliseconds. */
  readonly clock: () => number;
  /** Monotonic milliseconds. */
  readonly stopwatch: () => number;
  /** Asked only if the accounts are in a database. */
  readonly monitor: () => Monitor;
  /** Told the first time that something cannot be recorded beside the accounts' file. */
  readonly unrecorded: (error: unknown) => void;
}

/** The accounts of a running sidecar: the directory for requests and the store for operators. */
export function openStores(
  { store, accounts }: Pick<Config, 'store' | 'accounts'>,
  { env, clock, stopwatch, monitor, unrecorded }: StoresDependencies,
): OpenAccounts {
  if (store.kind === 'postgres') return new PostgresAccounts(store, clock, stopwatch, monitor());
  const { file, masterKeys } = store;
  return new FileAccounts({ file, env, masterKeys }, accounts, clock, unrecorded);
}

/** The store of a command, which needs no directory, and the vault of its credentials. Nothing is opened before it is needed. */
export function openStore(settings: StoreSettings, env: Env): { readonly store: Store; readonly vault: Vault } {
  const { masterKeys } = settings;
  const vault = new Vault(masterKeys);
  if (settings.kind === 'postgres') return { store: new PostgresStore(settings.url), vault };
  return { store: new FileStore({ file: settings.file, env, masterKeys }), vault };
}
