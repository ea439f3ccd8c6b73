import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Account } from '../accounts/account.ts';
import { differences, type Difference } from '../accounts/differences.ts';
import type { AppendedEvent } from '../accounts/store.ts';
import type { Logger } from './logger.ts';

/** Maximum number of lines for one reload, not counting revocations. There is a maximum because a new file may change everything. */
const maxChanges = 100;

/** How many accounts are compared in one turn of the event loop. */
const batch = 100;

/**
 * Logs each event that this process adds to the trail, whatever the log level. With `position` and `hash`, anyone who keeps the log can
 * tell whether the trail is unchanged.
 */
export function auditTo(log: Logger): (event: AppendedEvent) => void {
  const trail = log.child({}, { level: 'info' });
  return ({ at: _at, prev: _prev, details, requestId, ...event }) =>
    trail.info({ ...event, ...details, request_id: requestId }, 'audit');
}

/**
 * Logs one change to an account that this sidecar applies, whoever made it. A revocation is logged whatever the log level, so that the log
 * shows which keys had been revoked if older accounts are restored.
 */
export function logChange(log: Logger, difference: Difference): void {
  const to = difference.change === 'key_revoked' ? log.child({}, { level: 'info' }) : log;
  to.info(difference, 'account changed');
}

/**
 * Logs how `after` differs from `before`: the first changes, then how many more accounts have changed. Works in batches, so that requests
 * are served in between.
 */
export async function logChanges(log: Logger, before: readonly Account[], after: readonly Account[]): Promise<void> {
  const earlier = new Map(before.map((account) => [account.id, account]));
  const later = new Set(after.map(({ id }) => id));
  const pairs = [
    ...after.map((account) => [earlier.get(account.id), account] as const),
    ...before.filter(({ id }) => !later.has(id)).map((account) => [account, undefined] as const),
  ];
  let logged = 0;
  let more = 0;
  for (const [i, [one, other]] of pairs.entries()) {
    if (i % batch === batch - 1) await nextTurn();
    const found = differences(one, other);
    const revoked = found.filter(({ change }) => change === 'key_revoked');
    const counted = found.length - revoked.length;
    const isTooMany = counted > 0 && logged + counted > maxChanges;
    for (const difference of isTooMany ? revoked : found) logChange(log, difference);
    if (isTooMany) more += 1;
    else logged += counted;
  }
  if (more > 0) log.info({ accounts: more }, 'more accounts changed');
}
