import { FileAccounts } from '../accounts/file/accounts.ts';
import type { OpenAccounts } from '../accounts/open-accounts.ts';
import { PostgresAccounts } from '../accounts/postgres/accounts.ts';
import type { Monitor } from '../accounts/postgres/monitor.ts';
import type { Env } from '../yaml/values.ts';
import type { Config } from './config.ts';

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
