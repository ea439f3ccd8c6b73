import { Option } from 'commander';
import { auditActions, type EventFilter } from '../accounts/store.ts';
import { environmentNames } from '../accounts/api-key.ts';
import { identifier } from '../accounts/value-types.ts';
import { instant } from '../input/value-types.ts';
import { addTrailCommands, positionOf } from './audit-verify.ts';
import { readAs } from './options.ts';
import type { AddStoreCommand } from './store-command.ts';

/** Adds `audit list|verify|export`. */
export function addAuditCommands(add: AddStoreCommand): void {
  add('list', 'list changes to accounts, newest first', 'reads')
    .option('--account <id>', 'only changes to this account', readAs(identifier))
    .option(
      '--since <time>',
      'only changes since this time, such as 2026-11-01 or 2026-11-01T09:30:00Z',
      readAs(instant),
    )
    .option('--until <time>', 'only changes before this time', readAs(instant))
    .option('--actor <name>', 'only changes by this actor: token:otto, user:otto, or otto for either')
    .addOption(new Option('--action <action>', 'only changes of this kind').choices(auditActions))
    .addOption(new Option('--environment <environment>', 'only changes in this environment').choices(environmentNames))
    .option('--before <position>', 'only changes before this position', positionOf)
    .option('--after <position>', 'only changes after this position, oldest first', positionOf)
    .run(({ operations, unreadable, showList }, filter: EventFilter) =>
      showList(operations.events(filter, unreadable), {
        head: ['POSITION', 'TIME', 'ACTOR', 'ACTION', 'ACCOUNT', 'DETAILS'],
        row: ({ position, at, actor, action, account, details }) => {
          const pairs = Object.entries(details).map(([name, value]) => `${name}=${value}`);
          return [String(position), at, actor, action, account ?? '-', pairs.join(' ')];
        },
        empty: 'No changes.',
      }),
    );
  addTrailCommands(add);
}
