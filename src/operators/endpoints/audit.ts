import { z } from 'zod';
import { instant, type ValueType } from '../../input/value-types.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, type Endpoint } from '../endpoint.ts';
import { pageSize } from '../paging.ts';

const place: ValueType<number> = {
  name: 'place',
  expected: '`next` of the previous page',
  pattern: /^[0-9]{1,15}$/,
  read: Number,
};

export const auditEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/audit',
    operation: 'list_events',
    summary: 'List who changed what and when, page by page, oldest first',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      account: account.optional(),
      since: textValue(instant).optional().describe('Only events from this time on.'),
      after: textValue(place).optional().describe('`next` of the previous page.'),
      limit: pageSize,
    }),
    response: { status: 200, view: 'Events' },
    run: async ({ operations }, { account, since, after, limit }, { token }) => {
      const filter = { account: token.account ?? account, since, after };
      const { items, next, ...page } = await operations.eventsPage(limit, filter);
      return { events: items, next: next === null ? null : String(next), ...page };
    },
  }),
];
