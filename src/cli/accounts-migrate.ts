import type { Command } from 'commander';
import { migrate } from '../accounts/postgres/migrate.ts';
import { CommandFailed } from './command-failed.ts';
import { exitCodes, type CliIo } from './io.ts';
import { onStore, storeCommand, type SetExitCode, type StoreOptions } from './store-command.ts';

/** Adds `accounts migrate`. */
export function addMigrateCommand(accounts: Command, io: CliIo, setExitCode: SetExitCode): void {
  storeCommand(accounts, io, 'migrate', 'create or update the tables in PostgreSQL').action((options: StoreOptions) =>
    onStore(io, setExitCode, 'accounts migrate', options, async ({ settings, show }) => {
      if (settings.kind !== 'postgres') {
        throw new CommandFailed(
          'this configuration stores the accounts in a file, not in a database',
          exitCodes.configuration,
        );
      }
      const migrations = await migrate(settings.url);
      await show({ migrations }, () => {
        return migrations.length === 0 ? 'The tables are up to date.\n' : `Applied ${migrations.join(', ')}.\n`;
      });
    }),
  );
}
