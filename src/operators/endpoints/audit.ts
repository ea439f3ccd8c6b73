import { z } from 'zod';
import { rfc3339 } from '../../accounts/dates.ts';
import type { AuditEventView } from '../../accounts/views.ts';
import { instant, type Kind } from '../../input/kinds.ts';
import { textValue } from '../../input/text-value.ts';
import { account, endpoint, type Endpoint } from '../endpoint.ts';
import { pageSize } from '../paging.ts';

/** A position in the trail. Many events may have the same time, for instance after an import. */
interface Place {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The number of events of this time before it. */
  readonly skip: number;
}

const place: Kind<Place> = {
  name: 'place',
  expected: '`next` of the page before',
  pattern: /^[0-9]{1,15}~[0-9]{1,9}$/,
  read: (text) => {
    const [at, skip] = text.split('~').map(Number);
    return at === undefined || skip === undefined ? undefined : { at, skip };
  },
};

export const auditEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/audit',
    operation: 'list_events',
    summary: 'List who changed what and when, page by page, the oldest event first',
    role: 'viewer',
    accountToken: 'own',
    input: z.strictObject({
      account: account.optional(),
      since: textValue(instant).optional().describe('From then on.'),
      after: textValue(place).optional().describe('`next` of the page before.'),
      limit: pageSize,
    }),
    response: { status: 200, view: 'Events' },
    run: async ({ operations }, { account, since, after, limit }, { token }) => {
      const unreadable: string[] = [];
      const events: AuditEventView[] = [];
      const filter = { account: token.account ?? account, since: after?.at ?? since };
      let next: Place = after ?? { at: 0, skip: 0 };
      let toSkip = next.skip;
      for await (const event of operations.events(filter, ({ message }) => void unreadable.push(message))) {
        const at = Date.parse(event.at);
        if (toSkip > 0 && after !== undefined && rfc3339(after.at) === event.at) {
          toSkip--;
          continue;
        }
        if (events.length === limit) return { events, next: `${next.at}~${next.skip}`, unreadable };
        events.push(event);
        next = { at, skip: next.at === at ? next.skip + 1 : 1 };
      }
      return { events, next: null, unreadable };
    },
  }),
];
