import type { AuditEvent } from './api.ts';
import { inFull } from './dates.ts';
import { texts } from './texts.ts';

type Details = AuditEvent['details'];

/** What an event says, by its action: `revoked key …`. Actions without a row are told by their name and their details. */
const told: Partial<Record<AuditEvent['action'], (details: Details) => string>> = {
  account_added: ({ name }) => `added the account, named ${name}`,
  account_imported: () => 'imported the account',
  account_renamed: ({ name }) => `renamed the account to ${name}`,
  account_activated: () => 'activated the account',
  account_deactivated: () => 'deactivated the account',
  key_issued: ({ key, environment, kind, name }) =>
    `issued the ${kind} key ${key} for ${environment}${name === undefined ? '' : `, named ${name}`}`,
  key_rotated: ({ key, replaces, replaced_expires_at: until }) =>
    `rotated key ${replaces}: ${key} is its successor, and it ends ${dateOf(until)}`,
  key_revoked: ({ key }) => `revoked key ${key}`,
  encryption_enabled: ({ environment, replaced, grace_until: until }) =>
    `${replaced === true ? 'replaced key and IV' : 'enabled encryption'} in ${environment}${graceOf(until)}`,
  encryption_disabled: ({ environment, grace_until: until }) =>
    `disabled encryption in ${environment}${graceOf(until)}`,
  grace_changed: ({ environment, grace_until: until }) =>
    `moved the end of the grace in ${environment} to ${dateOf(until)}`,
  grace_ended: ({ environment }) => `ended the grace in ${environment}`,
  operator_signed_in: ({ role }) => `signed in as ${role}`,
  operators_refused: ({ requests }) => `${requests} requests with wrong tokens were refused`,
};

/** An event as a sentence about its actor. */
export function sentenceOf({ action, details }: AuditEvent): string {
  const tell = told[action];
  if (tell !== undefined) return tell(details);
  const facts = Object.entries(details).map(([name, value]) => `${name} ${value}`);
  return [texts.audit.actions[action], ...facts].join(', ');
}

function graceOf(until: Details[string] | undefined): string {
  return until === undefined ? ', without a grace' : `, with a grace until ${dateOf(until)}`;
}

function dateOf(date: Details[string] | undefined): string {
  return inFull(String(date));
}

/** Consecutive imports by one actor, as one entry; every other event is an entry of its own. */
export function entriesOf(events: readonly AuditEvent[]): readonly (readonly [AuditEvent, ...AuditEvent[]])[] {
  const entries: [AuditEvent, ...AuditEvent[]][] = [];
  for (const event of events) {
    const last = entries.at(-1);
    const belongs = last?.[0].action === 'account_imported' && event.action === 'account_imported';
    if (belongs && last[0].actor === event.actor) last.push(event);
    else entries.push([event]);
  }
  return entries;
}

/** The name in an actor, without where it comes from. */
export function nameOf(actor: string): string {
  return actor.replace(/^(?:user|token):/, '');
}
