import type { KeyObject } from 'node:crypto';
import { isSignedBy, lineAfter, publicText, readTies, type Link } from '../audit/chain.ts';
import { AccountsError } from './accounts-error.ts';
import type { AppendedEvent, AuditAction, AuditEvent } from './store.ts';
import { sha256Hex } from '../cryptography.ts';

/** How a store writes its trail. */
export interface TrailOptions {
  /** The origin of events that have none of their own; undefined if it is not known. */
  readonly origin?: string | undefined;
  /** Ed25519 private keys. The first key signs new events; the others have signed earlier events. Without keys, events are not signed. */
  readonly auditKeys?: readonly KeyObject[] | undefined;
}

/** The end of a trail, to which the next line is chained. */
export interface TrailEnd extends Link {
  /** The last line that is part of the chain; undefined if there is none. */
  readonly chained: Buffer | undefined;
}

/**
 * Chains events to the end of a trail. If the new events are signed with a different key than the last event, an event that announces the
 * new key is added first.
 *
 * @returns the lines to append, without newlines, each with its event
 * @throws AccountsError `audit_key_missing` if the last event is signed with a key that is not in `auditKeys`
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

/** An event about the trail itself. It has the time, the actor and the origin of the event that causes it. */
export function trailEvent(cause: AuditEvent, action: AuditAction, details: AuditEvent['details']): AuditEvent {
  return { ...cause, action, account: undefined, details, older: undefined };
}

/** The key that signed the last event; undefined if that event is not signed. */
function findSigner(chained: Buffer | undefined, keys: readonly KeyObject[]): KeyObject | undefined {
  const sig = chained && readTies(chained)?.sig;
  if (chained === undefined || sig === undefined) return undefined;
  const signer = keys.find((key) => isSignedBy(chained, sig, key));
  if (signer !== undefined) return signer;
  const message =
    keys.length === 0
      ? 'the audit trail is signed, but audit.key is not set: set it, or make the change where it is set'
      : 'the audit trail was signed with a key other than audit.key: add that key after the new one';
  throw new AccountsError('audit_key_missing', message);
}
