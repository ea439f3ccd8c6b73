import { migrate } from '../accounts/postgres/migrate.ts';
import { CommandFailed } from './command-failed.ts';
import { exitCodes } from './io.ts';
import type { AddStoreCommand } from './store-command.ts';

/** Adds `accounts migrate`. */
export function addMigrateCommand(add: AddStoreCommand): void {
  add('migrate', 'create or update the tables in PostgreSQL').run(async ({ settings, show }) => {
    if (settings.kind !== 'postgres') {
      throw new CommandFailed(
        'this configuration stores the accounts in a file, not in a database',
        exitCodes.configuration,
      );
    }
    const migrations = await migrate(settings.url);
    await show({ migrations }, () =>
      migrations.length === 0 ? 'The tables are up to date.\n' : `Applied ${migrations.join(', ')}.\n`,
    );
  });
}
