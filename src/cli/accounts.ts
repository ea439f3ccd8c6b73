import { Option } from 'commander';
import { accountName, newName } from '../accounts/value-types.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { accountFilters, type AccountFilter } from '../accounts/conditions.ts';
import { migrate } from '../accounts/postgres/migrate.ts';
import { PostgresStore } from '../accounts/postgres/store.ts';
import type { AuditEvent } from '../accounts/store.ts';
import type { AccountView } from '../accounts/views.ts';
import { addTransferCommands } from './accounts-transfer.ts';
import { CommandFailed } from './failures.ts';
import { exitCodes } from './io.ts';
import { keysTable } from './keys.ts';
import { accountArgument, readAs } from './options.ts';
import type { AddStoreCommand, StoreSession } from './store-command.ts';
import { members, type Layout } from './table.ts';

const nameOption = ['--name <name>', 'name of the merchant, for display', readAs(newName)] as const;

/** Adds `accounts list|show|add|rename|activate|deactivate|remove|migrate` and the commands of `addTransferCommands`. */
export function addAccountCommands(add: AddStoreCommand): void {
  const onAccount: AddStoreCommand = (name, description, access) =>
    add(name, description, access).addArgument(accountArgument('<id>'));
  add('list', 'list accounts', 'reads')
    .option('--search <text>', 'only accounts whose id or name contains this text, ignoring case', readAs(accountName))
    .addOption(
      new Option(
        '--filter <filter>',
        'only accounts that are inactive, encrypt, or have keys that are due for rotation, expire soon or are unused',
      ).choices(accountFilters),
    )
    .run(list);
  onAccount('show', 'show an account, its keys and its encryption', 'reads').run(show);
  onAccount('add', 'add an active account without keys')
    .requiredOption(...nameOption)
    .run(addAccount);
  onAccount('rename', 'change the display name of an account')
    .requiredOption(...nameOption)
    .run(rename);
  onAccount('activate', 'accept requests from an account again').run(setActive(true));
  onAccount('deactivate', 'refuse all requests from an account').run(setActive(false));
  onAccount('remove', 'remove an inactive account without valid keys; its audit events are kept').run(remove);
  addTransferCommands(add);
  add('migrate', 'create or update the tables in PostgreSQL').run(migrateTables);
}

interface ListOptions {
  readonly search?: string;
  readonly filter?: AccountFilter;
}

function list({ operations, unreadable, showList }: StoreSession, { search, filter }: ListOptions): Promise<void> {
  return showList(operations.list({ search, anyOf: filter && [filter], unreadable }), accountsLayout);
}

async function show(session: StoreSession, id: string): Promise<void> {
  const view = await session.operations.show(id);
  await session.show(view, () => accountText(view));
}

async function addAccount(session: StoreSession, id: string, { name }: { readonly name: string }): Promise<void> {
  const { operations, actor, show } = session;
  const added = await operations.add(id, name, { actor });
  await show(added, () => `Added ${id}.\nNext: sidecar keys issue ${id} --environment test --kind secret\n`);
}

async function rename(session: StoreSession, id: string, { name }: { readonly name: string }): Promise<void> {
  const { operations, actor, show } = session;
  const renamed = await operations.rename(id, name, { actor });
  await show(renamed, () => `${id} is now named ${renamed.name}.\n`);
}

function setActive(isActive: boolean) {
  return async ({ operations, actor, show }: StoreSession, id: string): Promise<void> => {
    const view = await operations.setActive(id, isActive, { actor });
    await show(view, () => `${id} is ${isActive ? 'active' : 'deactivated'}.\n`);
  };
}

async function remove({ operations, actor, show }: StoreSession, id: string): Promise<void> {
  const removed = await operations.remove(id, { actor });
  await show(removed, () => `${id} is removed.\n`);
}

async function migrateTables({ settings, store, show, actor, clock, audit, log }: StoreSession): Promise<void> {
  if (settings.type !== 'postgres' || !(store instanceof PostgresStore)) {
    const message = 'this configuration stores the accounts in a file, not in a database';
    throw new CommandFailed(message, exitCodes.configuration);
  }
  const migrations = await migrate(settings.url, () => log.warn(isWaiting));
  const begun: AuditEvent = { at: clock(), actor, action: 'trail_begun', account: undefined, details: {} };
  const appended = await store.chainOlder(begun);
  const events = appended.at(-1)?.details['events'] ?? 0;
  appended.forEach(audit);
  for (const role of await store.olderWriters()) log.warn({ role }, signsOlder);
  const chained = events === 0 ? '' : `Chained ${events} events from the previous version.\n`;
  await show({ migrations, events }, () =>
    migrations.length === 0
      ? `The tables are up to date.\n${chained}`
      : `Applied ${migrations.join(', ')}.\n${chained}`,
  );
}

const isWaiting = 'another database session holds a lock on the tables: retrying for a minute';

const signsOlder =
  'this role may insert into the table "audit", and "accounts migrate" signs all rows of that table: revoke this right, unless version 0.1.0 is still running';

const accountsLayout: Layout<AccountView> = {
  head: ['ID', 'NAME', 'ACTIVE', 'KEYS', 'ENCRYPTS'],
  row: (account) => [
    account.id,
    account.name,
    account.active ? 'yes' : 'no',
    String(account.keys.filter(({ state }) => state === 'valid').length),
    encrypts(account),
  ],
  empty: 'No accounts.',
};

function encrypts({ encryption }: AccountView): string {
  return environmentNames.filter((name) => encryption[name].enabled).join(', ') || '-';
}

function accountText(account: AccountView): string {
  const { id, name, active, keys } = account;
  const head = members({ id, name, active: active ? 'yes' : 'no', encrypts: encrypts(account) });
  return `${head}\n${keysTable(keys)}`;
}
