import type { Pool } from 'pg';
import type { EnvironmentName, KeyPrefix } from '../api-key.ts';
import { encryptionLabel, addLabels, type ExpiringKeys, type Rotation, type AccountStats } from '../account-stats.ts';
import { isDue, isExpiring, isValid } from './conditions.ts';
import { query } from './transaction.ts';
import type { EpochMs, MonotonicMs } from '../../times.ts';

/** Minimum time between two counts, in milliseconds. */
const shortestAge = 10_000;

/** Counting may take up at most 1/100 of a connection's time. */
const share = 100;

/** Keeps the counts for the metrics. Counting a million accounts takes about a second, so scrapes get the latest counts without waiting. */
export class AccountCounter {
  readonly #pool: () => Promise<Pool>;
  readonly #clock: () => EpochMs;
  readonly #monotonic: () => MonotonicMs;
  #latest: AccountStats | undefined;
  #counting = false;
  #dueAt = -Infinity;

  constructor(pool: () => Promise<Pool>, clock: () => EpochMs, monotonic: () => MonotonicMs) {
    this.#pool = pool;
    this.#clock = clock;
    this.#monotonic = monotonic;
  }

  /** Returns the latest counts, or undefined before the first count. Starts counting again if the counts are old. */
  latest(): AccountStats | undefined {
    if (!this.#counting && this.#monotonic() >= this.#dueAt) void this.refresh();
    return this.#latest;
  }

  /** Counts again. If the database is unreachable, the previous counts are kept. */
  async refresh(): Promise<void> {
    this.#counting = true;
    const begin = this.#monotonic();
    try {
      this.#latest = await this.#count(this.#clock());
    } catch {
      // The error is ignored, because the directory reports that the database is unreachable.
    }
    this.#dueAt = this.#monotonic() + Math.max(shortestAge, share * (this.#monotonic() - begin));
    this.#counting = false;
  }

  async #count(now: EpochMs): Promise<AccountStats> {
    const pool = await this.#pool();
    const accounts = await query<{ test: boolean; live: boolean; count: number }>(pool, countAccounts);
    const apiKeys = await query<{ prefix: KeyPrefix; rotation: Rotation; count: number }>(pool, countKeys(now));
    const ending = await query<{ prefix: KeyPrefix } & ExpiringKeys>(pool, countExpiring(now));
    const credentials = await query<{ environment: EnvironmentName; rotation: Rotation; count: number }>(
      pool,
      countCredentials(now),
    );
    return addLabels({
      accounts: new Map(accounts.map(({ test, live, count }) => [encryptionLabel(test, live), count])),
      apiKeys: new Map(apiKeys.map(({ prefix, rotation, count }) => [`${prefix} ${rotation}`, count])),
      expiring: new Map(ending.map(({ prefix, ...keys }) => [prefix, keys])),
      credentials: new Map(
        credentials.map(({ environment, rotation, count }) => [`${environment} ${rotation}`, count]),
      ),
    });
  }
}

/** Counts accounts by the environments in which they encrypt. The last row counts the accounts that encrypt in neither environment. */
const countAccounts = `
  WITH encrypting AS (
    SELECT test, live, count(*) AS count
    FROM (
      SELECT bool_or(environment = 'test') AS test, bool_or(environment = 'live') AS live
      FROM envelope_sidecar.encryption WHERE enabled GROUP BY account_id
    ) AS accounts
    GROUP BY test, live
  )
  SELECT test, live, count::float FROM encrypting
  UNION ALL
  SELECT false, false, (SELECT count(*) FROM envelope_sidecar.accounts) - coalesce(sum(count), 0)::float FROM encrypting`;

const rotation = (now: EpochMs): string => `CASE WHEN ${isDue(now)} THEN 'due' ELSE 'current' END AS rotation`;

/** Counts valid keys. */
const countKeys = (now: EpochMs): string => `
  SELECT prefix, ${rotation(now)}, count(*)::float AS count
  FROM envelope_sidecar.api_keys WHERE ${isValid(now)} GROUP BY 1, 2`;

/** Counts the valid keys that expire soon, and finds the earliest expiry. */
const countExpiring = (now: EpochMs): string => `
  SELECT prefix, (count(*) FILTER (WHERE ${isExpiring(now)}))::float AS count,
    (extract(epoch FROM min(expires_at)) * 1000)::float AS next
  FROM envelope_sidecar.api_keys WHERE ${isValid(now)} AND expires_at < 'infinity' GROUP BY 1`;

/** Counts credentials in use. Credentials of unknown age count as current. */
const countCredentials = (now: EpochMs): string => `
  SELECT environment, ${rotation(now)}, count(*)::float AS count
  FROM envelope_sidecar.encryption WHERE enabled GROUP BY 1, 2`;
