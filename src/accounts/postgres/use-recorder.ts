import type { Pool } from 'pg';
import type { EnvironmentName } from '../api-key.ts';
import type { Uses } from '../key-directory.ts';

/** How often uses are stored, which is also how outdated a `last used` may be. Milliseconds. */
const interval = 60_000;

/** How soon the first use in a grace is stored, because operators wait for it. Milliseconds. */
const soon = 1_000;

/** The most uses that are kept while they cannot be written. Later ones are dropped. */
const maxUses = 100_000;

/** Rows in one statement. */
const batch = 1_000;

/**
 * Records when keys and previous credentials were last used, and when accounts that do not encrypt last sent an envelope. Uses
 * are written once a minute, and only if no other sidecar has done so within the last minute: a key in use costs one write a
 * minute, however busy it is.
 */
export class UseRecorder implements Uses {
  readonly #pool: () => Promise<Pool>;
  readonly #keys = new Noted<number>(writeKeys, (at, id) => ({ key_id: id, used_at: timestamp(at) }));
  readonly #previous = new Noted<readonly [until: number, at: number]>(writePrevious, ([until, at], id) => {
    return { ...environmentIn(id), until: timestamp(until), used_at: timestamp(at) };
  });
  readonly #unexpected = new Noted<number>(writeUnexpected, (at, id) => ({
    ...environmentIn(id),
    seen_at: timestamp(at),
  }));
  /** The ends of graces whose first use is stored or about to be, by account and environment. */
  readonly #graces = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;

  constructor(pool: () => Promise<Pool>) {
    this.#pool = pool;
  }

  key(id: string, at: number): void {
    this.#keys.note(id, at);
  }

  previous(account: string, environment: EnvironmentName, until: number, at: number): void {
    const id = `${account} ${environment}`;
    this.#previous.note(id, [until, at]);
    if (this.#graces.get(id) === until) return;
    if (this.#graces.size === maxUses) this.#graces.clear();
    this.#graces.set(id, until);
    this.#soon ??= setTimeout(() => void this.write(), soon).unref();
  }

  unexpected(account: string, environment: EnvironmentName, at: number): void {
    this.#unexpected.note(`${account} ${environment}`, at);
  }

  start(): void {
    this.#timer = setInterval(() => void this.write(), interval);
  }

  /** Stores the recorded uses. Those that cannot be stored are kept for the next attempt. */
  async write(): Promise<void> {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    for (const noted of [this.#keys, this.#previous, this.#unexpected]) await noted.write(this.#pool);
  }

  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }
}

/** The latest uses that are not stored yet, by id. */
class Noted<T> {
  readonly #statement: string;
  readonly #rowOf: (use: T, id: string) => object;
  #uses = new Map<string, T>();

  /** @param statement writes rows, which are one JSON text in $1 */
  constructor(statement: string, rowOf: (use: T, id: string) => object) {
    this.#statement = statement;
    this.#rowOf = rowOf;
  }

  note(id: string, use: T): void {
    if (this.#uses.size < maxUses || this.#uses.has(id)) this.#uses.set(id, use);
  }

  async write(pool: () => Promise<Pool>): Promise<void> {
    const uses = this.#uses;
    this.#uses = new Map();
    const rows = [...uses].map(([id, use]) => this.#rowOf(use, id));
    try {
      for (let i = 0; i < rows.length; i += batch) {
        await (await pool()).query(this.#statement, [JSON.stringify(rows.slice(i, i + batch))]);
      }
    } catch {
      // The directory reports that the database cannot be reached. Later uses take precedence over these.
      this.#uses = new Map([...uses, ...this.#uses]);
    }
  }
}

/** No id of an account has a space. */
function environmentIn(id: string): object {
  const [account_id, environment] = id.split(' ');
  return { account_id, environment };
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
