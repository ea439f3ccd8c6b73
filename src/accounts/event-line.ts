import { auditActions, type RecordedEvent } from './store.ts';

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;
const members = 'at actor action account details position older origin request_id prev sig'.split(' ');

/** Reads a line of a trail; undefined if it is not an event. Without zod, which a running sidecar does not load. */
export function eventOf(line: string, position: number): RecordedEvent | undefined {
  try {
    const event = JSON.parse(line) as Readonly<Record<string, unknown>>;
    const { at, actor, account, details, origin, request_id: requestId } = event;
    const action = auditActions.find((each) => each === event['action']);
    if (Object.keys(event).some((name) => !members.includes(name)) || action === undefined) return undefined;
    if (typeof at !== 'string' || !time.test(at) || typeof actor !== 'string' || !isDetails(details)) return undefined;
    if (!isOptional(account) || !isOptional(origin) || !isOptional(requestId)) return undefined;
    return { at: Date.parse(at), actor, action, account, details, origin, requestId, position };
  } catch {
    return undefined;
  }
}

function isOptional(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isDetails(value: unknown): value is Record<string, string | number | boolean> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => ['string', 'number', 'boolean'].includes(typeof each));
}
