import { Option, type Command } from 'commander';
import { identifier } from '../accounts/file/schema.ts';
import type { AuditEventView } from '../accounts/views.ts';
import { instant } from '../input/kinds.ts';
import type { CliIo } from './io.ts';
import { readAs } from './options.ts';
import { onStore, storeCommand, type SetExitCode, type StoreOptions, type StoreSession } from './store-command.ts';
import { table } from './table.ts';

/** Rows per table, so that the trail need not fit into memory. */
const page = 1_000;

type Options = StoreOptions & { readonly account?: string; readonly since?: number };

/** Adds `audit list`. */
export function addAuditCommands(program: Command, io: CliIo, setExitCode: SetExitCode): void {
  const audit = program.command('audit').description('show the audit trail');
  storeCommand(audit, io, 'list', 'list changes of accounts, oldest first')
    .addOption(new Option('--account <id>', 'only changes of this account').argParser(readAs(identifier)))
    .addOption(
      new Option(
        '--since <time>',
        'only changes from this time on, such as 2026-11-01 or 2026-11-01T09:30:00Z',
      ).argParser(readAs(instant)),
    )
    .action(async ({ account, since, ...options }: Options) => {
      await onStore(io, setExitCode, 'audit list', options, async (session) => {
        const events = session.operations.events({ account, since }, session.unreadable);
        await (options.json ? listJson(session, events) : listTable(session, events));
      });
    });
}

/** Writes an array while it is read. */
async function listJson({ io }: StoreSession, events: AsyncIterable<AuditEventView>): Promise<void> {
  let separator = '[';
  for await (const event of events) {
    await io.stdout.write(`${separator}\n${JSON.stringify(event)}`);
    separator = ',';
  }
  await io.stdout.write(separator === '[' ? '[]\n' : '\n]\n');
}

async function listTable({ io }: StoreSession, events: AsyncIterable<AuditEventView>): Promise<void> {
  let rows: string[][] = [];
  let isEmpty = true;
  const flush = async (): Promise<void> => {
    if (rows.length > 0)
      await io.stdout.write(table([['TIME', 'ACTOR', 'ACTION', 'ACCOUNT', 'DETAILS'], ...rows], 'DETAILS'));
    rows = [];
  };
  for await (const { at, actor, action, account, details } of events) {
    isEmpty = false;
    const pairs = Object.entries(details).map(([name, value]) => `${name}=${value}`);
    rows.push([at, actor, action, account ?? '-', pairs.join(' ')]);
    if (rows.length === page) await flush();
  }
  await flush();
  if (isEmpty) await io.stdout.write('No changes.\n');
}
