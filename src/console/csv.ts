import type { AuditEvent } from './api.ts';

/** Audit events as CSV (RFC 4180), a line each. */
export function csvOf(events: readonly AuditEvent[]): string {
  const rows = events.map(({ at, actor, action, account, details }) => [
    at,
    actor,
    action,
    account ?? '',
    JSON.stringify(details),
  ]);
  return [['at', 'actor', 'action', 'account', 'details'], ...rows]
    .map((row) => `${row.map(cell).join(',')}\r\n`)
    .join('');
}

/** A spreadsheet takes a cell for a formula that begins so: a quote in front makes text of it. */
const formula = /^[=+\-@\t\r]/;

function cell(text: string): string {
  return `"${(formula.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}
