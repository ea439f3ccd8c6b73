import { LRUCache } from 'lru-cache';
import { daysOfUse, type DailyUses } from '../accounts.ts';
import type { Query } from './transaction.ts';
import type { EpochMs } from '../../times.ts';

const hour = 3_600_000;

/** Maximum number of keys in one statement. Each key may have 720 rows, and other queries wait until the statement ends. */
const page = 50;

/** For how many milliseconds counts are reused. They hardly change sooner, because sidecars store uses only once a minute. */
const maxAge = 60_000;

/** Maximum number of keys whose uses are kept. */
const maxKept = 10_000;

interface Kept {
  /** The end of the last day, in epoch milliseconds. */
  readonly end: number;
  /** Requests per day; undefined if there were none. */
  readonly counts: readonly number[] | undefined;
}

/** Reads the daily number of requests with each key, summed over all sidecars. */
export class DailyUseReader {
  readonly #kept = new LRUCache<string, Kept>({ max: maxKept, ttl: maxAge, ttlResolution: 0 });

  /**
   * @param now the last day ends with the hour that contains this time
   * @throws AccountsError
   */
  async read(run: Query, keys: readonly string[], now: EpochMs): Promise<DailyUses> {
    const end = Math.floor(now / hour) * hour;
    const uses = new Map<string, readonly number[]>();
    const due: string[] = [];
    for (const key of keys) {
      const kept = this.#kept.get(key);
      if (kept?.end !== end) due.push(key);
      else if (kept.counts !== undefined) uses.set(key, kept.counts);
    }
    for (let i = 0; i < due.length; i += page) {
      const some = due.slice(i, i + page);
      const rows = await run<{ key_id: string; day: number; requests: number }>(select, [some, new Date(end)]);
      const found = new Map<string, number[]>();
      for (const { key_id: key, day, requests } of rows) {
        const counts = found.get(key) ?? Array.from({ length: daysOfUse }, () => 0);
        found.set(key, counts);
        counts[daysOfUse - 1 - day] = requests;
      }
      for (const key of some) this.#kept.set(key, { end, counts: found.get(key) });
      for (const [key, counts] of found) uses.set(key, counts);
    }
    return uses;
  }
}

const select = `
  SELECT key_id, floor(extract(epoch FROM $2::timestamptz - hour) / 86400)::int AS day, sum(requests)::float8 AS requests
  FROM envelope_sidecar.key_hours
  WHERE key_id = ANY($1) AND hour > $2::timestamptz - interval '${daysOfUse} days' AND hour <= $2
  GROUP BY key_id, day`;
