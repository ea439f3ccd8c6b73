import type { Pool } from 'pg';
import type { EnvironmentName } from '../api-key.ts';
import type { UnexpectedEnvelopes, Uses } from '../key-directory.ts';

/** How often uses are stored, which is also how outdated a `last used` may be. Milliseconds. */
const interval = 60_000;

/** How soon the first use in a grace is stored, because operators wait for it. Milliseconds. */
const soon = 1_000;

/** The most uses that are kept while they cannot be written. Later ones are dropped. */
const maxUses = 100_000;

/** Rows in one statement. */
const batch = 1_000;

interface PreviousUse {
  readonly account: string;
  readonly environment: EnvironmentName;
  readonly until: number;
  readonly at: number;
}

interface UnexpectedEnvelope {
  readonly account: string;
  readonly environment: EnvironmentName;
  readonly at: number;
}

/**
 * Records when keys and previous credentials were last used, and when accounts that do not encrypt last sent an envelope. Uses
 * are written once a minute, and only if no other sidecar has done so within the last minute: a key in use costs one write a
 * minute, however busy it is.
 */
export class UseRecorder implements Uses, UnexpectedEnvelopes {
  readonly #pool: () => Promise<Pool>;
  #keys = new Map<string, number>();
  #previous = new Map<string, PreviousUse>();
  #unexpected = new Map<string, UnexpectedEnvelope>();
  /** The ends of graces whose first use is stored or about to be, by account and environment. */
  readonly #graces = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;

  constructor(pool: () => Promise<Pool>) {
    this.#pool = pool;
  }

  key(id: string, at: number): void {
    if (this.#keys.size < maxUses || this.#keys.has(id)) this.#keys.set(id, at);
  }

  previous(account: string, environment: EnvironmentName, until: number, at: number): void {
    const id = `${account} ${environment}`;
    if (this.#previous.size < maxUses || this.#previous.has(id)) {
      this.#previous.set(id, { account, environment, until, at });
    }
    if (this.#graces.get(id) === until) return;
    if (this.#graces.size === maxUses) this.#graces.clear();
    this.#graces.set(id, until);
    this.#soon ??= setTimeout(() => void this.write(), soon).unref();
  }

  unexpected(account: string, environment: EnvironmentName, at: number): void {
    const id = `${account} ${environment}`;
    if (this.#unexpected.size < maxUses || this.#unexpected.has(id)) {
      this.#unexpected.set(id, { account, environment, at });
    }
  }

  start(): void {
    this.#timer = setInterval(() => void this.write(), interval);
  }

  /** Stores the recorded uses. If that fails, they are kept for the next attempt. */
  async write(): Promise<void> {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    const keys = this.#keys;
    const previous = this.#previous;
    const unexpected = this.#unexpected;
    this.#keys = new Map();
    this.#previous = new Map();
    this.#unexpected = new Map();
    const keyRows = [...keys].map(([key_id, at]) => ({ key_id, used_at: timestamp(at) }));
    const previousRows = [...previous.values()].map(({ account, environment, until, at }) => ({
      account_id: account,
      environment,
      until: timestamp(until),
      used_at: timestamp(at),
    }));
    const unexpectedRows = [...unexpected.values()].map(({ account, environment, at }) => ({
      account_id: account,
      environment,
      seen_at: timestamp(at),
    }));
    try {
      await this.#write(writeKeys, keyRows);
      await this.#write(writePrevious, previousRows);
      await this.#write(writeUnexpected, unexpectedRows);
    } catch {
      // The directory reports that the database cannot be reached. Later uses take precedence over these.
      this.#keys = new Map([...keys, ...this.#keys]);
      this.#previous = new Map([...previous, ...this.#previous]);
      this.#unexpected = new Map([...unexpected, ...this.#unexpected]);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }

  async #write(statement: string, rows: readonly object[]): Promise<void> {
    if (rows.length === 0) return;
    const pool = await this.#pool();
    for (let i = 0; i < rows.length; i += batch) {
      await pool.query(statement, [JSON.stringify(rows.slice(i, i + batch))]);
    }
  }
}

function timestamp(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

// In the order of their keys, so that concurrent writes of sidecars cannot deadlock. Removed keys and accounts are left
// out.
const writeKeys = `
  INSERT INTO envelope_sidecar.key_uses AS stored (key_id, used_at)
  SELECT key_id, given.used_at
  FROM json_to_recordset($1) AS given (key_id text, used_at timestamptz)
  JOIN envelope_sidecar.api_keys USING (key_id)
  ORDER BY key_id
  ON CONFLICT (key_id) DO UPDATE SET used_at = excluded.used_at
  WHERE stored.used_at <= excluded.used_at - interval '1 minute'`;

const writePrevious = `
  INSERT INTO envelope_sidecar.previous_uses AS stored (account_id, environment, until, used_at)
  SELECT account_id, environment, given.until, given.used_at
  FROM json_to_recordset($1) AS given (account_id text, environment text, until timestamptz, used_at timestamptz)
  JOIN envelope_sidecar.encryption USING (account_id, environment)
  WHERE previous_until = given.until
  ORDER BY account_id, environment
  ON CONFLICT (account_id, environment) DO UPDATE SET until = excluded.until, used_at = excluded.used_at
  WHERE stored.until <> excluded.until OR stored.used_at <= excluded.used_at - interval '1 minute'`;

const writeUnexpected = `
  INSERT INTO envelope_sidecar.unexpected_envelopes AS stored (account_id, environment, seen_at)
  SELECT account_id, environment, given.seen_at
  FROM json_to_recordset($1) AS given (account_id text, environment text, seen_at timestamptz)
  JOIN envelope_sidecar.accounts USING (account_id)
  ORDER BY account_id, environment
  ON CONFLICT (account_id, environment) DO UPDATE SET seen_at = excluded.seen_at
  WHERE stored.seen_at <= excluded.seen_at - interval '1 minute'`;
