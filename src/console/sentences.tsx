import type { AuditEvent } from './api.ts';
import { distance, inFull } from './dates.ts';
import { AccountLink } from './ui/inline.tsx';

type Details = AuditEvent['details'];

/**
 * The text before and after the account in the sentence about an event. An event without such text is described by its name and its
 * details.
 */
const told: Record<AuditEvent['action'], ((details: Details, at: string) => readonly [string, string?]) | undefined> = {
  account_added: ({ name }) => ['added', `, named ${name}`],
  account_imported: () => ['imported'],
  account_renamed: ({ name }) => ['renamed', ` to ${name}`],
  account_activated: () => ['activated'],
  account_deactivated: () => ['deactivated'],
  account_removed: ({ name }) => ['removed', `, named ${name}`],
  key_issued: ({ key, environment, kind, name }) => [
    `issued the ${kind} key ${key} for`,
    ` (${environment})${name === undefined ? '' : `, named ${name}`}`,
  ],
  key_rotated: ({ key, replaces, replaced_expires_at: until, ...details }) => [
    `rotated key ${replaces} of`,
    `${formatPlace(details)}: ${key} replaces it, and it expires ${formatDate(until)}`,
  ],
  key_revoked: ({ key, last_used_at: used, ...details }, at) => [
    `revoked key ${key} of`,
    formatPlace(details) + (used === undefined ? '' : `, last used ${timeBefore(String(used), at)}`),
  ],
  encryption_enabled: ({ environment, replaced, grace_until: until }) => [
    replaced === true ? 'replaced the key and the IV of' : 'enabled encryption for',
    ` in ${environment}${formatGrace(until)}`,
  ],
  encryption_disabled: ({ environment, grace_until: until }) => [
    'disabled encryption for',
    ` in ${environment}${formatGrace(until)}`,
  ],
  grace_changed: ({ environment, grace_until: until }) => [
    'moved the end of the grace period of',
    ` in ${environment} to ${formatDate(until)}`,
  ],
  grace_ended: ({ environment }) => ['ended the grace period of', ` in ${environment}`],
  accounts_exported: () => ['exported all accounts'],
  operator_signed_in: ({ role, sign_ins: count }) => [
    `signed in as ${role}${count === undefined || count === 1 ? '' : `, ${count} times in a minute`}`,
  ],
  operators_refused: ({ requests }) => [
    requests === 1
      ? 'a request with a wrong token was refused'
      : `${requests} requests with wrong tokens were refused in a minute`,
  ],
  master_key_changed: undefined,
  trail_begun: undefined,
  audit_key_changed: undefined,
  change_failed: undefined,
  configuration_changed: ({ configuration_hash: hash }) => [`applied another configuration, ${hash}`],
};

/** The names of the actions, as listed in a filter. */
export const actions = Object.fromEntries(Object.keys(told).map((action) => [action, written(action)])) as Record<
  AuditEvent['action'],
  string
>;

/** Formats the name of an action: `key_revoked` becomes `Key revoked`. */
function written(action: string): string {
  return action.slice(0, 1).toUpperCase() + action.slice(1).replaceAll('_', ' ');
}

/** An event as a sentence about its actor, with a link to the account. */
export function Sentence({ event: { action, account, details, at } }: { event: AuditEvent }) {
  const [before, behind = ''] = told[action]?.(details, at) ?? [
    [written(action), ...Object.entries(details).map(([name, value]) => `${name} ${value}`)].join(', '),
  ];
  return (
    <>
      {before}
      {account !== null && (
        <>
          {' '}
          <AccountLink id={account} />
        </>
      )}
      {behind}
    </>
  );
}

/** The environment of a key. Events from earlier versions do not contain it. */
function formatPlace({ environment }: Details): string {
  return environment === undefined ? '' : ` (${environment})`;
}

function timeBefore(date: string, at: string): string {
  return distance(Date.parse(date), Date.parse(at), 'seconds').replace(/ago$|now$/, 'before');
}

function formatGrace(until: Details[string] | undefined): string {
  return until === undefined ? ', without a grace period' : `, with a grace period until ${formatDate(until)}`;
}

function formatDate(date: Details[string] | undefined): string {
  return inFull(String(date));
}

/** Whether two events belong to the same import of several accounts. */
export function isOneImport(one: AuditEvent, other: AuditEvent): boolean {
  return one.action === 'account_imported' && other.action === one.action && other.actor === one.actor;
}

/** Groups events into entries. Consecutive events of one import form one entry; every other event is an entry of its own. */
export function groupEvents(events: readonly AuditEvent[]): readonly (readonly [AuditEvent, ...AuditEvent[]])[] {
  const entries: [AuditEvent, ...AuditEvent[]][] = [];
  for (const event of events) {
    const last = entries.at(-1);
    if (last !== undefined && isOneImport(last[0], event)) last.push(event);
    else entries.push([event]);
  }
  return entries;
}

/** The name of an actor, without its prefix. */
export function formatActor(actor: string): string {
  return actor.replace(/^(?:user|token):/, '');
}
