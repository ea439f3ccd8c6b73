import type { AuditEvent } from '../accounts/store.ts';
import type { Logger } from './logger.ts';

/** Writes each change of an account as a line of the log, whatever the log's level. */
export function auditTo(log: Logger): (event: AuditEvent) => void {
  const trail = log.child({}, { level: 'info' });
  return ({ actor, action, account, details }) => trail.info({ actor, action, account, ...details }, 'audit');
}
