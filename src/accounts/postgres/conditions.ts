import { expiryNotice, idleTime, rotationAge } from '../conditions.ts';
import type { Condition, Selection } from '../store.ts';
import type { EpochMs } from '../../times.ts';

// The rules of ../conditions.ts in SQL.

/**
 * Builds the SQL condition that selects accounts (`a`), and the values of its parameters. The query must return at most $2 accounts after
 * the id $1, sorted by id.
 *
 * @param first the number of the condition's first parameter
 */
export function buildConditions(
  selection: Selection | undefined,
  first: number,
): { readonly conditions: string; readonly values: readonly string[] } {
  if (selection === undefined) return { conditions: '', values: [] };
  const { search, anyOf, now } = selection;
  const parts: string[] = [];
  if (search !== undefined) parts.push(`(a.account_id ILIKE $${first} OR a.name ILIKE $${first})`);
  // If there is a search, no limit is set, because the search drops some of the accounts found here.
  const limit = search === undefined ? '$2' : 'ALL';
  const found = (rows: string): string =>
    `(SELECT DISTINCT account_id FROM envelope_sidecar.${rows} AND account_id > $1 ORDER BY account_id LIMIT ${limit})`;
  const condition = (each: Condition): string => {
    const sets = sql[each](now);
    return typeof sets === 'string' ? sets : `a.account_id IN (${sets.map(found).join(' UNION ALL ')})`;
  };
  if (anyOf !== undefined) parts.push(`(${anyOf.map(condition).join(' OR ')})`);
  return {
    conditions: parts.map((part) => ` AND ${part}`).join(''),
    values: search === undefined ? [] : [`%${search.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`],
  };
}

/**
 * Each condition, either as SQL on the account itself or as sets of rows whose accounts meet the condition. Sets are used instead of a
 * look-up for each account, because most queries select only a few of many rows. Each set is limited to a page of accounts, because some
 * queries select most of the rows.
 */
const sql: Readonly<Record<Condition, (now: EpochMs) => string | readonly string[]>> = {
  inactive: () => 'NOT a.active',
  encrypting: () => ['encryption WHERE enabled'],
  due: (now) => [`api_keys WHERE ${isValid(now)} AND ${isDue(now)}`, `encryption WHERE enabled AND ${isDue(now)}`],
  expiring: (now) => [`api_keys WHERE ${isValid(now)} AND ${isExpiring(now)}`],
  unused: (now) => [
    `api_keys LEFT JOIN envelope_sidecar.key_uses USING (key_id)
      WHERE ${isValid(now)} AND coalesce(used_at, created_at) <= ${time(now - idleTime)}`,
  ],
  in_grace: (now) => [`encryption WHERE previous_until > ${time(now)}`],
};

/** The SQL equivalent of `isValidKey` for a row of api_keys. */
export function isValid(now: EpochMs): string {
  return `revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${time(now)})`;
}

/** The SQL equivalent of `isDue` for a row of api_keys or encryption. */
export function isDue(now: EpochMs): string {
  return `created_at <= ${time(now - rotationAge)}`;
}

/** The SQL equivalent of `isExpiring` for a row of api_keys. */
export function isExpiring(now: EpochMs): string {
  return `expires_at <= ${time(now + expiryNotice)}`;
}

function time(milliseconds: number): string {
  return `timestamptz '${new Date(milliseconds).toISOString()}'`;
}
