import type { Command } from 'commander';
import { AccountsError } from '../accounts/accounts-error.ts';
import { migrate } from '../accounts/postgres/migrate.ts';
import { loadConfig } from '../config/load.ts';
import { complain } from './complain.ts';
import { invalidConfiguration } from './invalid-configuration.ts';
import { exitCodes, type CliIo } from './io.ts';
import { storeCommand, type Ended, type StoreOptions } from './store-command.ts';

/** Adds `accounts migrate`. */
export function addMigrateCommand(accounts: Command, io: CliIo, ended: Ended): void {
  storeCommand(accounts, io, 'migrate', 'make or renew the tables in PostgreSQL').action(
    async (options: StoreOptions) => {
      ended(await migrateStore(io, options));
    },
  );
}

/** @returns the exit code */
async function migrateStore(io: CliIo, { config, json }: StoreOptions): Promise<number> {
  const loaded = loadConfig(config, io.env);
  if (!loaded.ok) return invalidConfiguration(io, loaded.problems);
  const { store } = loaded.config;
  if (store.kind !== 'postgres') {
    complain(io, 'accounts migrate: the accounts are kept in a file, which has no tables\n');
    return exitCodes.configuration;
  }
  try {
    const migrations = await migrate(store.url);
    const text = migrations.length === 0 ? 'The tables are up to date.' : `Carried out ${migrations.join(', ')}.`;
    io.stdout.write(`${json ? JSON.stringify({ migrations }) : text}\n`);
    return exitCodes.done;
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    complain(io, `accounts migrate: ${error.message} (${error.code})\n`);
    return exitCodes.failed;
  }
}
