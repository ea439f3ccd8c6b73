import type { KeyObject } from 'node:crypto';
import { isSignedBy, lineAfter, publicText, readTies, type Link } from '../audit/chain.ts';
import type { Line } from '../audit/lines.ts';
import { readMembers } from '../input/json.ts';
import { AccountsError } from './accounts-error.ts';
import { auditActions, endList } from './store.ts';
import type { AppendedEvent, AuditAction, AuditEvent, EventFilter, RecordedEvent } from './store.ts';
import { sha256Hex } from '../cryptography.ts';

/** How a store writes its trail. */
export interface TrailOptions {
  /** Where events come from that do not say it themselves; undefined: not known. */
  readonly origin?: string | undefined;
  /** Ed25519 private keys: the first signs, the others signed before it. Empty: events are not signed. */
  readonly auditKeys?: readonly KeyObject[] | undefined;
}

/** The end of a trail, which the next line is chained to. */
export interface TrailEnd extends Link {
  /** The last line that is chained; undefined if there is none. */
  readonly chained: Buffer | undefined;
}

/**
 * Chains events to the end of a trail, behind an event of their own if the key that signs is another one from here on.
 *
 * @returns lines to be appended, without newline, and their events
 * @throws AccountsError `audit_key_missing` if the trail is signed and none of the keys has signed its last event
 */
export function chainEvents(
  end: TrailEnd,
  events: readonly AuditEvent[],
  { origin: ownOrigin, auditKeys = [] }: TrailOptions,
): readonly { readonly line: string; readonly appended: AppendedEvent }[] {
  const [key] = auditKeys;
  const [first] = events;
  const signer = findSigner(end.chained, auditKeys);
  const signed = events.map((event) => [event, key] as const);
  if (first !== undefined && key !== undefined && signer !== key)
    signed.unshift([trailEvent(first, 'audit_key_changed', { key: publicText(key) }), signer ?? key]);
  let last: Link = end;
  return signed.map(([event, signedBy]) => {
    const { older, actor, action, account, details, requestId: request_id } = event;
    const at = new Date(event.at).toISOString();
    const origin = older === undefined ? (event.origin ?? ownOrigin) : undefined;
    const line = lineAfter(last, { older, at, actor, action, account, details, origin, request_id }, signedBy);
    const appended = { ...event, origin, prev: last.hash, position: last.position + 1, hash: sha256Hex(line) };
    last = appended;
    return { line: line.toString(), appended };
  });
}

/** An event about the trail itself, with the time, the actor and the origin of another one. */
export function trailEvent(cause: AuditEvent, action: AuditAction, details: AuditEvent['details']): AuditEvent {
  return { ...cause, action, account: undefined, details, older: undefined };
}

/** The key that signed the last event; undefined: it is not signed. */
function findSigner(chained: Buffer | undefined, keys: readonly KeyObject[]): KeyObject | undefined {
  const sig = chained && readTies(chained)?.sig;
  if (chained === undefined || sig === undefined) return undefined;
  const signer = keys.find((key) => isSignedBy(chained, sig, key));
  if (signer !== undefined) return signer;
  const message =
    keys.length === 0
      ? 'the audit trail is signed, and audit.key is not set: set it, or make the change where it is'
      : 'the audit trail was signed with another key than audit.key: add that key behind the new one';
  throw new AccountsError('audit_key_missing', message);
}

/**
 * The events of a trail, as of a store.
 *
 * @param lines in the order of the events; others than of wanted events are left out
 * @param unreadable gets an error for each line that is not an event
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

/** Texts that the line of a wanted event contains, as JSON has them: lines without them need not be parsed. */
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

/** Undefined if the line is not an event. Without zod, which a running sidecar does not load. */
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
