import { AccountsError } from '../accounts-error.ts';
import { eventOf } from '../event-line.ts';
import { endList, type EventFilter, type RecordedEvent } from '../store.ts';
import type { Trail } from './trail.ts';

/** The events of a trail, as of a store. @param unreadable gets an error for each line that is not an event */
export async function* readEvents(
  trail: Trail,
  filter: EventFilter,
  unreadable = endList,
): AsyncIterable<RecordedEvent> {
  const { before = Infinity, after } = filter;
  for await (const [position, line] of after === undefined ? trail.newestFirst() : trail.oldestFirst()) {
    if (position >= before || position <= (after ?? 0) || line.length === 0) continue;
    const event = eventOf(line.toString(), position);
    if (event === undefined) {
      unreadable(new AccountsError('store_invalid', `${trail.name}:${position} is not an audit event`));
    } else if (isWanted(event, filter)) {
      yield event;
    }
  }
}

/** As the SQL in postgres/events.ts. */
function isWanted(event: RecordedEvent, filter: EventFilter): boolean {
  const { account, actor, action, environment, since = -Infinity, until = Infinity } = filter;
  if (event.at < since || event.at >= until) return false;
  if (account !== undefined && event.account !== account) return false;
  if (action !== undefined && event.action !== action) return false;
  if (environment !== undefined && event.details['environment'] !== environment) return false;
  return actor === undefined || event.actor === actor || event.actor.replace(/^[^:]*:/, '') === actor;
}
