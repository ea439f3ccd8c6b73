import { identifier } from '../accounts/value-types.ts';
import { instant } from '../input/value-types.ts';
import { readAs } from './options.ts';
import type { AddStoreCommand } from './store-command.ts';

interface Options {
  readonly account?: string;
  readonly since?: number;
}

/** Adds `audit list`. */
export function addAuditCommands(add: AddStoreCommand): void {
  add('list', 'list changes to accounts, oldest first')
    .option('--account <id>', 'only changes to this account', readAs(identifier))
    .option(
      '--since <time>',
      'only changes from this time on, such as 2026-11-01 or 2026-11-01T09:30:00Z',
      readAs(instant),
    )
    .run(({ operations, unreadable, showList }, { account, since }: Options) =>
      showList(operations.events({ account, since }, unreadable), {
        head: ['TIME', 'ACTOR', 'ACTION', 'ACCOUNT', 'DETAILS'],
        shrinks: 'DETAILS',
        row: ({ at, actor, action, account, details }) => {
          const pairs = Object.entries(details).map(([name, value]) => `${name}=${value}`);
          return [at, actor, action, account ?? '-', pairs.join(' ')];
        },
        empty: 'No changes.',
      }),
    );
}
