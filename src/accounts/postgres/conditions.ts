import { idleTime } from '../conditions.ts';
import type { Condition, Selection } from '../store.ts';
import { expiryNotice, rotationAge } from '../tally.ts';

/** The accounts `a` of a selection, as a condition and its values. @param first the number of its first parameter */
export function conditionsOf(
  { search, anyOf, now }: Selection,
  first: number,
): { readonly conditions: string; readonly values: readonly string[] } {
  const parts: string[] = [];
  if (search !== undefined) parts.push(`(a.account_id ILIKE $${first} OR a.name ILIKE $${first})`);
  if (anyOf !== undefined) parts.push(`(${anyOf.map((each) => sql[each](now)).join(' OR ')})`);
  return {
    conditions: parts.map((part) => ` AND ${part}`).join(''),
    values: search === undefined ? [] : [`%${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`],
  };
}

/**
 * `applies` of ../conditions.ts in SQL. Uses sets instead of a look-up for each account, because most queries select
 * few rows of many.
 */
const sql: Readonly<Record<Condition, (now: number) => string>> = {
  inactive: () => 'NOT a.active',
  encrypting: () => 'a.account_id IN (SELECT account_id FROM envelope_sidecar.encryption WHERE enabled)',
  due: (now) => `a.account_id IN (
    SELECT account_id FROM envelope_sidecar.api_keys WHERE ${valid(now)} AND created_at <= ${time(now - rotationAge)}
    UNION ALL
    SELECT account_id FROM envelope_sidecar.encryption WHERE enabled AND created_at <= ${time(now - rotationAge)})`,
  expiring: (now) => `a.account_id IN (
    SELECT account_id FROM envelope_sidecar.api_keys WHERE ${valid(now)} AND expires_at <= ${time(now + expiryNotice)})`,
  unused: (now) => `a.account_id IN (
    SELECT account_id FROM envelope_sidecar.api_keys LEFT JOIN envelope_sidecar.key_uses USING (key_id)
    WHERE ${valid(now)} AND coalesce(used_at, created_at) <= ${time(now - idleTime)})`,
  in_grace: (now) => `a.account_id IN (
    SELECT account_id FROM envelope_sidecar.encryption WHERE previous_until > ${time(now)})`,
};

function valid(now: number): string {
  return `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${time(now)})`;
}

function time(milliseconds: number): string {
  return `timestamptz '${new Date(milliseconds).toISOString()}'`;
}
