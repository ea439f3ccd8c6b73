import type { Line } from '../audit/lines.ts';
import { readMembers } from '../input/json.ts';
import { AccountsError } from './accounts-error.ts';
import { auditActions, endList, type EventFilter, type RecordedEvent } from './store.ts';

/**
 * Selects the events of a trail that match a filter, as `Store.events` does.
 *
 * @param lines the lines of the trail, in order; lines of events that do not match may be missing
 * @param unreadable called with an error for each line that is not an event
 */
export async function* selectEvents(
  lines: AsyncIterable<Line>,
  filter: EventFilter,
  unreadable = endList,
): AsyncIterable<RecordedEvent> {
  for await (const { bytes, position, isTorn } of lines) {
    if (isTorn) continue;
    const event = parseEvent(bytes, Number(position));
    if (event === undefined)
      unreadable(new AccountsError('store_invalid', `line ${position} of the audit trail is not an event`));
    else if (isWanted(event, filter)) yield event;
  }
}

/** Strings, escaped as in JSON, that the line of every matching event contains. A line that lacks one of them need not be parsed. */
export function wantedTexts({ account, actor, action, environment }: EventFilter): readonly string[] {
  const texts = [account, actor, action, environment].filter((text) => text !== undefined);
  return texts.map((text) => JSON.stringify(text).slice(1, -1));
}

function isWanted(event: RecordedEvent, filter: EventFilter): boolean {
  const { account, actor, action, environment, since = -Infinity, until = Infinity } = filter;
  if (event.at < since || event.at >= until) return false;
  if (account !== undefined && event.account !== account) return false;
  if (action !== undefined && event.action !== action) return false;
  if (environment !== undefined && event.details['environment'] !== environment) return false;
  return actor === undefined || event.actor === actor || event.actor.replace(/^[^:]*:/, '') === actor;
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;
const members = 'at actor action account details position older origin request_id prev sig'.split(' ');

/** Parses a line; undefined if it is not an event. Zod is not used here, because a running sidecar does not load it. */
function parseEvent(line: Buffer, position: number): RecordedEvent | undefined {
  const event = readMembers(line.toString());
  const { at, actor, account, details, origin, request_id: requestId } = event;
  const action = auditActions.find((each) => each === event['action']);
  if (Object.keys(event).some((name) => !members.includes(name)) || action === undefined) return undefined;
  const instant = typeof at === 'string' && time.test(at) ? Date.parse(at) : NaN;
  if (Number.isNaN(instant) || typeof actor !== 'string' || !isDetails(details)) return undefined;
  if (!isOptional(account) || !isOptional(origin) || !isOptional(requestId)) return undefined;
  return { at: instant, actor, action, account, details, origin, requestId, position };
}

const isOptional = (value: unknown) => value === undefined || typeof value === 'string';

function isDetails(value: unknown): value is Record<string, string | number | boolean> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => ['string', 'number', 'boolean'].includes(typeof each));
}
