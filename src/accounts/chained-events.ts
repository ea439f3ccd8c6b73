import type { KeyObject } from 'node:crypto';
import { hashOf, isSignedBy, lineAfter, publicText, tiesOf, type Link } from '../audit/chain.ts';
import { AccountsError } from './accounts-error.ts';
import type { AppendedEvent, AuditEvent } from './store.ts';

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

/** Lines to be appended, without newlines, and their events. */
export interface ChainedEvents {
  readonly lines: readonly Buffer[];
  readonly appended: readonly AppendedEvent[];
}

/**
 * Chains events to the end of a trail, behind an event of their own if the key that signs is another one from here on.
 *
 * @throws AccountsError `audit_key_missing` if the trail is signed and none of the keys has signed its last event
 */
export function chainEvents(end: TrailEnd, events: readonly AuditEvent[], options: TrailOptions): ChainedEvents {
  const [key] = options.auditKeys ?? [];
  const signer = signerOf(end.chained, options.auditKeys ?? []);
  const [first] = events;
  const lines: Buffer[] = [];
  const appended: AppendedEvent[] = [];
  let last: Link = end;
  const append = (event: AuditEvent, signedBy: KeyObject | undefined): void => {
    const { at, actor, action, account, details, older, requestId } = event;
    const origin = older === undefined ? (event.origin ?? options.origin) : undefined;
    const time = new Date(at).toISOString();
    const members = { older, at: time, actor, action, account, details, origin, request_id: requestId };
    const { hash: prev } = last;
    const line = lineAfter(last, members, signedBy);
    last = { position: last.position + 1, hash: hashOf(line) };
    lines.push(line);
    appended.push({ ...event, origin, prev, ...last });
  };
  if (first !== undefined && key !== undefined && signer !== key) {
    const details = { key: publicText(key) };
    append({ ...first, action: 'audit_key_changed', account: undefined, details, older: undefined }, signer ?? key);
  }
  for (const event of events) append(event, key);
  return { lines, appended };
}

/** The key that signed the last event; undefined: it is not signed. */
function signerOf(chained: Buffer | undefined, keys: readonly KeyObject[]): KeyObject | undefined {
  const sig = chained && tiesOf(chained)?.sig;
  if (chained === undefined || sig === undefined) return undefined;
  const signer = keys.find((key) => isSignedBy(chained, sig, key));
  if (signer !== undefined) return signer;
  const message =
    keys.length === 0
      ? 'the audit trail is signed, and audit.key is not set: set it, or make the change where it is'
      : 'the audit trail was signed with another key than audit.key: add that key behind the new one';
  throw new AccountsError('audit_key_missing', message);
}
