import { AccountsError } from '../accounts-error.ts';
import { eventOf } from '../event-line.ts';
import { endList, type EventFilter, type RecordedEvent } from '../store.ts';
import type { Query } from './transaction.ts';
import { trailRows } from './trail.ts';

/** The events, as of a store. @param unreadable gets an error for each row that is not an event */
export async function* readEvents(
  run: Query,
  { account, actor, action, environment, since = 0, until, ...range }: EventFilter,
  unreadable = endList,
): AsyncIterable<RecordedEvent> {
  const member = (name: string): string => `line::jsonb ->> '${name}'`;
  const condition = `AND ($3::text IS NULL OR ${member('account')} = $3)
    AND ${member('at')} >= $4 COLLATE "C" AND ($5::text IS NULL OR ${member('at')} < $5 COLLATE "C")
    AND ($6::text IS NULL OR ${member('action')} = $6)
    AND ($7::text IS NULL OR line::jsonb -> 'details' ->> 'environment' = $7)
    AND ($8::text IS NULL OR $8 IN (${member('actor')}, substr(${member('actor')}, strpos(${member('actor')}, ':') + 1)))`;
  const end = until === undefined ? null : new Date(until).toISOString();
  const begin = new Date(since).toISOString();
  const values = [account ?? null, begin, end, action ?? null, environment ?? null, actor ?? null];
  for await (const row of trailRows(run, range, condition, values)) {
    const event = eventOf(row.line, Number(row.position));
    if (event === undefined) unreadable(new AccountsError('store_invalid', `audit event ${row.position} is not one`));
    else yield event;
  }
}
