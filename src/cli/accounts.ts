import { Option, type Command } from 'commander';
import { accountName } from '../accounts/file/schema.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { accountFilters, type AccountFilter } from '../accounts/conditions.ts';
import type { ListQuery } from '../accounts/queries.ts';
import type { AccountView } from '../accounts/views.ts';
import type { CliIo } from './io.ts';
import { addMigrateCommand } from './accounts-migrate.ts';
import { addTransferCommands } from './accounts-transfer.ts';
import { keysTable } from './keys.ts';
import { accountArgument, readAs } from './options.ts';
import { onStore, storeCommand, type SetExitCode, type StoreOptions, type StoreSession } from './store-command.ts';
import { members, table } from './table.ts';

/** Rows per table, so that a million accounts need not fit into memory. */
const page = 1_000;

/** Adds `accounts list|show|add|rename|activate|deactivate|import|export|copy|rekey|migrate`. */
export function addAccountCommands(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  const accounts = program.command('accounts').description('add, list, change, import and export accounts');

  storeCommand(accounts, io, 'list', 'list accounts')
    .option('--search <text>', 'only accounts whose id or name contains this text, in any letter case')
    .addOption(
      new Option(
        '--filter <filter>',
        'only accounts that are inactive or encrypt, or have keys that are due for rotation, expire soon or are unused',
      ).choices(accountFilters),
    )
    .action(async (options: StoreOptions & ListOptions) => {
      const query = { search: options.search, anyOf: options.filter && [options.filter] };
      await onStore(io, setExitCode, 'accounts list', options, (session) =>
        options.json ? listJson(session, query) : listTable(session, query),
      );
    });

  storeCommand(accounts, io, 'show', 'show an account, its keys and its encryption')
    .addArgument(accountArgument('<id>'))
    .action(async (id: string, options: StoreOptions) => {
      await onStore(io, setExitCode, 'accounts show', options, async ({ operations, show }) => {
        const view = await operations.show(id);
        await show(view, () => accountText(view));
      });
    });

  storeCommand(accounts, io, 'add', 'add an active account without keys')
    .addArgument(accountArgument('<id>'))
    .addOption(nameOption())
    .action(async (id: string, options: StoreOptions & { name: string }) => {
      await onStore(io, setExitCode, 'accounts add', options, async ({ operations, actor, show }) => {
        const added = await operations.add(id, options.name, { actor });
        await show(added, () => `Added ${id}.\nNext: sidecar keys issue ${id} --environment test --kind secret\n`);
      });
    });

  storeCommand(accounts, io, 'rename', 'change the name of an account; its id stays the same')
    .addArgument(accountArgument('<id>'))
    .addOption(nameOption())
    .action(async (id: string, options: StoreOptions & { name: string }) => {
      await onStore(io, setExitCode, 'accounts rename', options, async ({ operations, actor, show }) => {
        const renamed = await operations.rename(id, options.name, { actor });
        await show(renamed, () => `${id} is now named ${renamed.name}.\n`);
      });
    });

  for (const [name, isActive, description] of [
    ['activate', true, 'accept the requests of an account again'],
    ['deactivate', false, 'refuse all requests of an account'],
  ] as const) {
    storeCommand(accounts, io, name, description)
      .addArgument(accountArgument('<id>'))
      .action(async (id: string, options: StoreOptions) => {
        await onStore(io, setExitCode, `accounts ${name}`, options, async ({ operations, actor, show }) => {
          const view = await operations.setActive(id, isActive, { actor });
          await show(view, () => `${id} is ${isActive ? 'active' : 'not active'}.\n`);
        });
      });
  }

  addTransferCommands(accounts, io, setExitCode);
  addMigrateCommand(accounts, io, setExitCode);
}

function nameOption(): Option {
  return new Option('--name <name>', 'name of the merchant, for display')
    .argParser(readAs(accountName))
    .makeOptionMandatory();
}

interface ListOptions {
  readonly search?: string;
  readonly filter?: AccountFilter;
}

/** Writes an array while it is read. */
async function listJson({ operations, io, unreadable }: StoreSession, query: ListQuery): Promise<void> {
  let separator = '[';
  for await (const account of operations.list({ ...query, unreadable })) {
    await io.stdout.write(`${separator}\n${JSON.stringify(account)}`);
    separator = ',';
  }
  await io.stdout.write(separator === '[' ? '[]\n' : '\n]\n');
}

async function listTable({ operations, io, unreadable }: StoreSession, query: ListQuery): Promise<void> {
  let rows: string[][] = [];
  let isEmpty = true;
  const flush = async (): Promise<void> => {
    if (rows.length > 0) await io.stdout.write(table([['ID', 'NAME', 'ACTIVE', 'KEYS', 'ENCRYPTS'], ...rows], 'NAME'));
    rows = [];
  };
  for await (const account of operations.list({ ...query, unreadable })) {
    isEmpty = false;
    const valid = account.keys.filter(({ state }) => state === 'valid').length;
    rows.push([account.id, account.name, account.active ? 'yes' : 'no', String(valid), encrypts(account)]);
    if (rows.length === page) await flush();
  }
  await flush();
  if (isEmpty) await io.stdout.write('No accounts.\n');
}

function encrypts({ encryption }: AccountView): string {
  return environmentNames.filter((name) => encryption[name].enabled).join(', ') || '-';
}

function accountText(account: AccountView): string {
  const head = members([
    ['id', account.id],
    ['name', account.name],
    ['active', account.active ? 'yes' : 'no'],
    ['encrypts', encrypts(account)],
  ]);
  return `${head}\n${keysTable(account.keys)}`;
}
