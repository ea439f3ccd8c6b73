import { daysOfUse, type DailyUses } from '../accounts.ts';
import type { Query } from './transaction.ts';
import type { EpochMs } from '../../times.ts';

const hour = 3_600_000;

/** Keys in the first statement, each of which may have 720 rows. */
const page = 50;

/**
 * The requests with these keys by day, as all sidecars have stored them.
 *
 * @param now the last day ends with its hour
 * @throws AccountsError
 */
export async function dailyUses(run: Query, keys: readonly string[], now: EpochMs): Promise<DailyUses> {
  const end = Math.floor(now / hour) * hour;
  const uses = new Map<string, number[]>();
  let size = page;
  for (let i = 0, next; i < keys.length; i = next) {
    next = i + size;
    const some = keys.slice(i, next);
    const rows = await run<{ key_id: string; day: number; requests: number }>(select, [some, new Date(end)]);
    for (const { key_id: key, day, requests } of rows) {
      const counts = uses.get(key) ?? Array.from({ length: daysOfUse }, () => 0);
      uses.set(key, counts);
      counts[daysOfUse - 1 - day] = requests;
    }
    // Others wait for a statement: only keys that are hardly used are read many at a time.
    size = rows.length < page ? 2 * size : page;
  }
  return uses;
}

const select = `
  SELECT key_id, floor(extract(epoch FROM $2::timestamptz - hour) / 86400)::int AS day, sum(requests)::float8 AS requests
  FROM envelope_sidecar.key_hours
  WHERE key_id = ANY($1) AND hour > $2::timestamptz - interval '${daysOfUse} days' AND hour <= $2
  GROUP BY key_id, day`;
