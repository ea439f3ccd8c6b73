import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Pool } from 'pg';
import type { Difference } from '../differences.ts';
import { query } from './transaction.ts';
import type { EpochMs } from '../../times.ts';

/** How long notifications are gathered, in milliseconds, so that a bulk change causes only one query. */
const gathering = 500;

/** How far the clock of a process that revokes keys may differ from this sidecar's clock, in milliseconds. */
const clockDifference = 300_000;

/** Maximum number of keys that are remembered as reported. */
const maxReported = 10_000;

/** Maximum number of revoked keys that are read and reported together. If too many were reported at once, the log would lose lines. */
const page = 1_000;

/** Maximum number of accounts that one query names. If there are more, all accounts are queried. */
const maxNamed = 1_000;

interface RevokedRow {
  readonly account_id: string;
  readonly key_id: string;
  /** As text from the database, because a number would lose digits. */
  readonly revoked_at: string;
}

/**
 * Reports revoked API keys of all accounts, whoever revoked them, including keys that this sidecar has never looked up. If the database is
 * restored from an older backup, the log thus shows which keys had been revoked. This class reads only tables that look-ups also read.
 */
export class Revocations {
  readonly #pool: () => Promise<Pool>;
  readonly #clock: () => EpochMs;
  readonly #report: (differences: readonly Difference[]) => void;
  readonly #reported = new LRUCache<string, true>({ max: maxReported });
  readonly #changed = new Set<string>();
  #all = false;
  #looking = false;
  #lookedAt: number;

  constructor(pool: () => Promise<Pool>, clock: () => EpochMs, report: (differences: readonly Difference[]) => void) {
    this.#pool = pool;
    this.#clock = clock;
    this.#report = report;
    this.#lookedAt = clock();
  }

  /** Schedules a check of an account that has changed. @param account undefined if any account may have changed */
  heard(account: string | undefined): void {
    if (account !== undefined && this.#changed.size < maxNamed) this.#changed.add(account);
    else this.#all = true;
    if (!this.#looking) void this.#look();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    while (this.#all || this.#changed.size > 0) {
      await delay(gathering, undefined, { ref: false });
      const accounts = this.#all ? null : [...this.#changed];
      this.#all = false;
      this.#changed.clear();
      try {
        for await (const revoked of this.#revoked(accounts)) {
          this.#report(revoked);
          await nextTurn();
        }
      } catch {
        // The directory reports that the database is unreachable. Once the database is back, all accounts are checked.
        this.#all = true;
        break;
      }
    }
    this.#looking = false;
  }

  async *#revoked(accounts: readonly string[] | null): AsyncIterable<readonly Difference[]> {
    const now = this.#clock();
    const since = this.#lookedAt - clockDifference;
    for (let last: RevokedRow | undefined, found = page; found === page;) {
      const rows = await query<RevokedRow>(
        await this.#pool(),
        `SELECT account_id, key_id, revoked_at::text FROM envelope_sidecar.api_keys
          WHERE revoked_at > to_timestamp($2::float8 / 1000) AND ($1::text[] IS NULL OR account_id = ANY($1))
            AND ($3::timestamptz IS NULL OR (revoked_at, key_id) > ($3, $4))
          ORDER BY revoked_at, key_id LIMIT ${page}`,
        [accounts, since, last?.revoked_at ?? null, last?.key_id ?? null],
      );
      const fresh = rows.filter(({ key_id: key }) => !this.#reported.has(key));
      for (const { key_id: key } of fresh) this.#reported.set(key, true);
      yield fresh.map(({ account_id: account, key_id: key }) => ({ account, change: 'key_revoked', key }));
      found = rows.length;
      last = rows.at(-1);
    }
    // All changes before `now` have been announced and checked.
    this.#lookedAt = now;
  }
}
