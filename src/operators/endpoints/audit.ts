import { z } from 'zod';
import { auditActions } from '../../accounts/store.ts';
import { position } from '../../accounts/value-types.ts';
import { instant, oneOf, type ValueType } from '../../input/value-types.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, environment, type Endpoint } from '../endpoint.ts';
import { pageSize } from '../paging.ts';

const actorName: ValueType<string> = {
  name: 'actor',
  expected: '1 to 200 printable ASCII characters without spaces',
  pattern: /^[!-~]{1,200}$/,
  read: (text) => text,
};

export const auditEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/audit',
    operation: 'list_events',
    summary: 'List who changed what and when, page by page, newest first',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      account: account.optional(),
      actor: textValue(actorName)
        .optional()
        .describe('Only events of this actor: `token:otto`, `user:otto`, or `otto` for either.'),
      action: textValue(oneOf(auditActions)).optional(),
      environment: environment.optional(),
      since: textValue(instant).optional().describe('Only events from this time on.'),
      until: textValue(instant).optional().describe('Only events before this time.'),
      before: textValue(position).optional().describe('Only events before this position: `next` of the previous page.'),
      after: textValue(position)
        .optional()
        .describe('Only events after this position, oldest first: for a client that follows the trail.'),
      limit: pageSize,
    }),
    takesTurns: true,
    response: { status: 200, view: 'Events' },
    run: async ({ operations }, { account, limit, ...filter }, { token }) => {
      const ofAccount = { ...filter, account: token.account ?? account };
      const { items, next, ...page } = await operations.eventsPage(limit, ofAccount);
      // Omits the origin, because a merchant need not know where the platform's operators work.
      const events =
        token.account === undefined ? items : items.map((event) => Object.assign({}, event, { origin: null }));
      return { events, next: next === null ? null : String(next), ...page };
    },
  }),
];
