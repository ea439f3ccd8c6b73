import { setTimeout as delay } from 'node:timers/promises';
import type { Pool, QueryResultRow } from 'pg';
import { AccountsError } from '../accounts-error.ts';
import { lockTimeout } from './clients.ts';
import { accountsError, contended, isConnectionLost, isLocked, isLostRace, isQueueFull } from './failures.ts';

/** Runs one statement and returns its rows. */
export type Query = <R extends QueryResultRow>(text: string, values?: readonly unknown[]) => Promise<R[]>;

/** Maximum number of attempts at a change that conflicts with other changes. */
const attempts = 5;

/**
 * Maximum number of attempts to take locks that other transactions hold, and the milliseconds between attempts; all attempts together take
 * five seconds. Between attempts, no connection and no other lock is held, so that work that waits for one account does not delay work on
 * other accounts.
 */
const lockAttempts = 10;
const lockPause = 400;

/**
 * How long a commit waits for PostgreSQL's notification lock, which other commits hold only for milliseconds. If a commit has waited in
 * vain, no change is announced for `unannouncedTime` milliseconds, because otherwise every further change would wait just as long.
 */
const announcePatience = '300ms';
const unannouncedTime = 10_000;

/** Whether changes are announced. All changes to the same database share this state. */
export class Announcing {
  #pause: NodeJS.Timeout | undefined;

  get isOn(): boolean {
    return this.#pause === undefined;
  }

  pause(): void {
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => (this.#pause = undefined), unannouncedTime).unref();
  }
}

/** How many times the outcome of a commit is queried if the response to it was lost, and the milliseconds between queries. */
const inquiries = 50;
const inquiryInterval = 100;

/** Runs a statement outside a transaction. @throws AccountsError */
export async function query<R extends QueryResultRow>(
  pool: Pool,
  text: string,
  values: readonly unknown[] = [],
): Promise<R[]> {
  try {
    return (await pool.query<R>(text, [...values])).rows;
  } catch (error) {
    throw accountsError(error);
  }
}

/** Runs statements outside a transaction, on any connection of a pool. */
export function queryOn(pool: Pool): Query {
  return (text, values) => query(pool, text, values);
}

/** What a transaction does. */
export interface Work<Made, Result> {
  run(query: Query): Promise<Made>;
  /** Called immediately before the commit, with the result of `run`. */
  finish(query: Query, made: Made): Promise<Result>;
  /**
   * Whether the result is in the database. Called if the response to the commit was lost and the transaction's id is reported as committed.
   */
  isStored(query: Query, result: Result): Promise<boolean>;
}

/** How a transaction waits for locks that other transactions hold. */
interface Patience {
  /** How long one attempt waits for the accounts' locks, in milliseconds. Default: the lock timeout of the pool's connections. */
  readonly lockTimeout?: number;
  /** Whether there may be another attempt. Default: until `lockAttempts` attempts have been made. */
  readonly mayRetry?: () => boolean;
}

/**
 * Runs `work` in a transaction, and runs it again if the transaction conflicts with another one. An error that `work` throws aborts the
 * transaction and is rethrown.
 *
 * @throws AccountsError if the transaction fails. In that case nothing was changed, unless the message says that the outcome is unknown
 */
export async function transaction<Made, Result>(
  pool: Pool,
  work: Work<Made, Result>,
  announcing: Announcing,
  { lockTimeout: ownTimeout, mayRetry }: Patience = {},
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once(pool, work, announcing.isOn, ownTimeout);
    } catch (error) {
      if (error instanceof LostRace) {
        if (attempt >= attempts) throw contended(error);
      } else if (!(error instanceof Failure)) throw error;
      else if (isUnannounceable(error) && attempt < attempts) announcing.pause();
      else if (isLocked(error.cause) && (mayRetry?.() ?? attempt < lockAttempts)) await delay(lockPause);
      else if (attempt >= attempts || !isLostRace(error.cause)) throw accountsError(error.cause);
    }
  }
}

/** Thrown by the work of a transaction if another transaction has changed the rows that were read. The work is then done again. */
export class LostRace extends Error {
  constructor() {
    super('the rows were changed after they were read');
  }
}

/** An error from the database or its connection, as opposed to an error that `work` throws. */
class Failure extends Error {
  readonly atCommit: boolean;

  constructor(cause: unknown, atCommit = false) {
    super('the database failed', { cause });
    this.atCommit = atCommit;
  }
}

function fail(error: unknown): never {
  throw new Failure(error);
}

/**
 * Whether a change failed because of its notification. Any role may fill PostgreSQL's queue of notifications, or hold the queue's lock for
 * as long as that role writes to the queue. A change without a notification is marked as such by the triggers.
 */
function isUnannounceable({ cause, atCommit }: Failure): boolean {
  return atCommit && (isQueueFull(cause) || isLocked(cause));
}

/** A commit that was sent to the database, and the id of its transaction. */
interface Commit<Result> {
  readonly id: string;
  readonly result: Result;
}

async function once<Made, Result>(
  pool: Pool,
  work: Work<Made, Result>,
  announced: boolean,
  quickly: number | undefined,
): Promise<Result> {
  const client = await pool.connect().catch(fail);
  const run: Query = async <R extends QueryResultRow>(text: string, values: readonly unknown[] = []) =>
    (await client.query<R>(text, [...values]).catch(fail)).rows;
  let commit: Commit<Result> | undefined;
  let failure: unknown;
  let lost = false;
  try {
    const settings = [
      ...(announced ? [] : [`SET LOCAL envelope_sidecar.unannounced = 'on'`]),
      ...(quickly === undefined ? [] : [`SET LOCAL lock_timeout = '${quickly}ms'`]),
    ];
    // The isolation level is set explicitly, because changes that wait for each other here would fail at a stricter default level.
    await run(['BEGIN ISOLATION LEVEL READ COMMITTED', ...settings].join('; '));
    const made = await work.run(run);
    // The id is null if nothing was written, in which case a lost response does not matter. From here on, the transaction may wait longer
    // for locks, because commits that send notifications run one at a time, and because giving up would mean doing everything again.
    const [{ id } = { id: null }] = await run<{ id: string | null }>(
      `SELECT pg_current_xact_id_if_assigned()::text AS id, set_config('lock_timeout', $1, true)`,
      [`${lockTimeout}ms`],
    );
    const result = await work.finish(run, made);
    if (id !== null) commit = { id, result };
    const commits = announced ? `SET LOCAL lock_timeout = '${announcePatience}'; COMMIT` : 'COMMIT';
    await client.query(commits).catch((error: unknown) => {
      throw new Failure(error, true);
    });
    return result;
  } catch (error) {
    failure = error;
    lost = error instanceof Failure && isConnectionLost(error.cause);
    if (!lost) await client.query('ROLLBACK').catch(() => (lost = true));
  } finally {
    // The connection is released before another one is requested, because all connections of the pool may have been lost at once.
    client.release(lost);
  }
  if (!lost || commit === undefined || !(await wasCommitted(pool, work, commit, failure))) throw failure;
  return commit.result;
}

/** Finds out, on another connection, whether a commit succeeded although the response to it was lost. */
async function wasCommitted<Result>(
  pool: Pool,
  work: Pick<Work<never, Result>, 'isStored'>,
  { id, result }: Commit<Result>,
  cause: unknown,
): Promise<boolean> {
  const run = queryOn(pool);
  for (let inquiry = 1; inquiry <= inquiries; inquiry += 1) {
    try {
      const [row] = await run<{ status: string | null }>('SELECT pg_xact_status($1::xid8) AS status', [id]);
      if (row?.status === 'aborted') return false;
      // A server that crashes may forget an id that it has assigned, and assign the id to another transaction. That transaction may be the
      // one that was committed, so the result itself is checked, too.
      if (row?.status === 'committed') return await work.isStored(run, result);
    } catch {
      // The database still cannot be reached, so the query is repeated.
    }
    await delay(inquiryInterval);
  }
  throw new AccountsError(
    'store_unavailable',
    'the connection was lost during the commit, so the change may have been made: check before you repeat it',
    cause,
  );
}
