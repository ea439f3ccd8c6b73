import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Account } from '../accounts/account.ts';
import { differences, type Difference } from '../accounts/differences.ts';
import type { AuditEvent } from '../accounts/store.ts';
import type { Logger } from './logger.ts';

/** The most lines for one reload, because a new file may change everything. */
const maxChanges = 100;

/** The number of accounts that are compared in one turn of the event loop. */
const batch = 100;

/** Logs each change that this process makes, whatever the log's level. */
export function auditTo(log: Logger): (event: AuditEvent) => void {
  const trail = log.child({}, { level: 'info' });
  return ({ actor, action, account, details }) => trail.info({ actor, action, account, ...details }, 'audit');
}

/** Logs one change of an account that this sidecar applies, from any source. */
export function logChange(log: Logger, difference: Difference): void {
  log.info(difference, 'account changed');
}

/**
 * Logs how the accounts in force differ from the previous ones: the first changes, then how many more accounts changed.
 * Requests are served in between.
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
    if (found.length === 0) continue;
    if (logged + found.length > maxChanges) {
      more += 1;
      continue;
    }
    for (const difference of found) logChange(log, difference);
    logged += found.length;
  }
  if (more > 0) log.info({ accounts: more }, 'more accounts changed');
}
