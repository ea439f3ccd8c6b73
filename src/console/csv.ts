import type { AuditEvent } from './api.ts';

/** Audit events as CSV (RFC 4180), one line each. */
export function toCsv(events: readonly AuditEvent[]): string {
  const rows = events.map(({ position, at, actor, action, account, details, origin }) => [
    String(position),
    at,
    actor,
    action,
    account ?? '',
    JSON.stringify(details),
    origin ?? '',
  ]);
  return [['position', 'at', 'actor', 'action', 'account', 'details', 'origin'], ...rows]
    .map((row) => `${row.map(cell).join(',')}\r\n`)
    .join('');
}

/** A spreadsheet treats cells that begin like this as formulas. A leading quote makes them text. */
const formula = /^[=+\-@\t\r]/;

function cell(text: string): string {
  return `"${(formula.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** Saves text as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
