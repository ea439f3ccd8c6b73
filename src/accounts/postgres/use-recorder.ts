import type { Pool } from 'pg';
import type { EnvironmentName } from '../api-key.ts';
import type { Uses } from '../key-directory.ts';
import { WriteBehindBuffer } from '../write-behind-buffer.ts';
import type { EpochMs } from '../../times.ts';

/** The time between writes to the store, in milliseconds. The stored time of the last use may be out of date by this much. */
const interval = 60_000;

/** How soon the first use in a grace period is stored, in milliseconds. It is stored early, because operators wait to see this use. */
const soon = 1_000;

/** Maximum number of grace periods remembered. */
const maxGraces = 100_000;

/** Maximum number of rows in one statement. */
const batch = 1_000;

const hour = 3_600_000;

/** Maximum number of hours whose counts may wait to be written. The counts of older hours are lost. */
const maxHours = 6;

/** The number of writes after which old counts are deleted, which is about once an hour. */
const writesBetweenDeletions = 60;

/**
 * Records when keys and previous credentials were last used, and counts the requests with each key by hour. It writes once a minute.
 * Counts are always written, a time only if no other sidecar has written one within the last minute. So each sidecar writes at most two rows
 * a minute for a key in use, however many requests are sent with it.
 */
export class UseRecorder implements Uses {
  readonly #pool: () => Promise<Pool>;
  readonly #keys = new WriteBehindBuffer<number>();
  readonly #previous = new WriteBehindBuffer<{ readonly until: EpochMs; readonly at: number }>();
  /** The number of requests, by hour and then by key. Joining hour and key into one string would cost each request half a microsecond. */
  readonly #hours = new Map<number, WriteBehindBuffer<number>>();
  /** By account and environment, the end of the grace period whose first use has been stored or is about to be. */
  readonly #graces = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #writes = 0;

  constructor(pool: () => Promise<Pool>) {
    this.#pool = pool;
  }

  key(id: string, at: number): void {
    this.#keys.add(id, at);
    this.#requestsIn(Math.floor(at / hour)).add(id, 1);
  }

  previous(account: string, environment: EnvironmentName, until: EpochMs, at: number): void {
    const id = `${account} ${environment}`;
    this.#previous.add(id, { until, at });
    if (this.#graces.get(id) === until) return;
    if (this.#graces.size === maxGraces) this.#graces.clear();
    this.#graces.set(id, until);
    this.#soon ??= setTimeout(() => void this.write(), soon).unref();
  }

  start(): void {
    this.#timer = setInterval(() => void this.write(), interval);
  }

  /** Stores the recorded uses. Uses that cannot be stored are kept for the next attempt. */
  async write(): Promise<void> {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    await this.#store(this.#keys, writeKeys, (id, at) => ({ key_id: id, used_at: new Date(at) }));
    await this.#store(this.#previous, writePrevious, (id, { until, at }) => {
      return { ...environmentIn(id), until: new Date(until), used_at: new Date(at) };
    });
    for (const [number, requests] of this.#hours) {
      const at = new Date(number * hour);
      await this.#store(requests, writeHours, (id, count) => ({ key_id: id, hour: at, requests: count }));
    }
    if (this.#writes++ % writesBetweenDeletions === 0) await this.#deleteOld();
  }

  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }

  /** @param number the number of the hour since the epoch */
  #requestsIn(number: number): WriteBehindBuffer<number> {
    const found = this.#hours.get(number);
    if (found !== undefined) return found;
    const requests = new WriteBehindBuffer<number>((earlier, later) => earlier + later);
    this.#hours.set(number, requests);
    const [oldest = number] = this.#hours.keys();
    if (this.#hours.size > maxHours) this.#hours.delete(oldest);
    return requests;
  }

  /** @param statement writes the rows that $1 contains as JSON */
  async #store<T>(
    buffer: WriteBehindBuffer<T>,
    statement: string,
    rowOf: (id: string, value: T) => object,
  ): Promise<void> {
    const writeRows = async (values: ReadonlyMap<string, T>): Promise<void> => {
      const rows = [...values].map(([id, value]) => rowOf(id, value));
      await (await this.#pool()).query(statement, [JSON.stringify(rows)]);
    };
    // The error is ignored, because the directory reports that the database cannot be reached.
    await buffer.write(writeRows, batch).catch(() => {});
  }

  async #deleteOld(): Promise<void> {
    try {
      await (await this.#pool()).query('SELECT envelope_sidecar.forget_key_hours()');
    } catch {
      // The error is ignored, because another sidecar will delete the old counts, or this one will do so later.
    }
  }
}

/** Splits an id from `#previous` at the space, which no account id contains. */
function environmentIn(id: string): object {
  const [account_id, environment] = id.split(' ');
  return { account_id, environment };
}

// Rows are written sorted by key, so that concurrent writes by several sidecars cannot deadlock. Removed keys and accounts are left out. If
// a sidecar's clock is ahead, the database's current time is stored instead, because a time in the future would remain the time of the last
// use.
const writeKeys = `
  INSERT INTO envelope_sidecar.key_uses AS stored (key_id, used_at)
  SELECT key_id, least(given.used_at, now())
  FROM json_to_recordset($1) AS given (key_id text, used_at timestamptz)
  JOIN envelope_sidecar.api_keys USING (key_id)
  ORDER BY key_id
  ON CONFLICT (key_id) DO UPDATE SET used_at = excluded.used_at
  WHERE stored.used_at <= excluded.used_at - interval '1 minute' OR stored.used_at > now()`;

const writePrevious = `
  INSERT INTO envelope_sidecar.previous_uses AS stored (account_id, environment, until, used_at)
  SELECT account_id, environment, given.until, least(given.used_at, now())
  FROM json_to_recordset($1) AS given (account_id text, environment text, until timestamptz, used_at timestamptz)
  JOIN envelope_sidecar.encryption USING (account_id, environment)
  WHERE date_trunc('milliseconds', previous_until) = given.until
  ORDER BY account_id, environment
  ON CONFLICT (account_id, environment) DO UPDATE SET until = excluded.until, used_at = excluded.used_at
  WHERE stored.until <> excluded.until
    OR stored.used_at <= excluded.used_at - interval '1 minute' OR stored.used_at > now()`;

const writeHours = `
  INSERT INTO envelope_sidecar.key_hours AS stored (key_id, hour, requests)
  SELECT key_id, least(given.hour, date_trunc('hour', now(), 'UTC')), given.requests
  FROM json_to_recordset($1) AS given (key_id text, hour timestamptz, requests bigint)
  JOIN envelope_sidecar.api_keys USING (key_id)
  ORDER BY key_id, hour
  ON CONFLICT (key_id, hour) DO UPDATE SET requests = stored.requests + excluded.requests`;
