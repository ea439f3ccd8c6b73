import { FileAccounts } from '../accounts/file/accounts.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { PostgresAccounts } from '../accounts/postgres/accounts.ts';
import type { Monitor } from '../accounts/postgres/monitor.ts';
import type { AppendedEvent } from '../accounts/store.ts';
import type { Env } from '../yaml/values.ts';
import type { Config } from './config.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

interface StoresDependencies {
  readonly env: Env;
  readonly clock: () => EpochMs;
  readonly monotonic: () => MonotonicMs;
  /** Used only if the accounts are in a database. */
  readonly monitor: () => Monitor;
  /** Called after each change by an operator. */
  readonly audit: (event: AppendedEvent) => void;
}

/** The accounts of a running sidecar: the directory for requests and the operations for operators. */
export function openStores(
  { store, accounts }: Pick<Config, 'store' | 'accounts'>,
  { env, clock, monotonic, monitor, audit }: StoresDependencies,
): Accounts {
  if (store.type === 'postgres') return new PostgresAccounts(store, clock, monotonic, monitor(), audit);
  const { type: _, ...settings } = store;
  return new FileAccounts({ ...settings, env, clock, monotonic, audit }, accounts);
}
