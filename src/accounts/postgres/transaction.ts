import { setTimeout as delay } from 'node:timers/promises';
import type { ClientBase, Pool, QueryResultRow } from 'pg';
import { AccountsError } from '../accounts-error.ts';
import { accountsError, contended, isConnectionLost, isLocked, isLostRace } from './failures.ts';

/** Carries out one statement and returns its rows. */
export type Query = <R extends QueryResultRow>(text: string, values?: readonly unknown[]) => Promise<R[]>;

/** Attempts at a change that conflicts with others. */
const attempts = 5;

/** Milliseconds between attempts at a lock, in which no connection is held. */
const lockPause = 400;

/** How often the outcome of a commit is queried after its response was lost, and the milliseconds between queries. */
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

/**
 * Runs `work` in a transaction, and again if it conflicts with another one. An error that `work` throws aborts the
 * transaction and is rethrown.
 *
 * @param last gets its result, immediately before the commit
 * @param lockAttempts attempts at locks that others hold
 * @throws AccountsError nothing was changed, unless the message says that the outcome is unknown
 */
export async function transaction<T>(
  pool: Pool,
  work: (query: Query) => Promise<T>,
  last: (query: Query, result: T) => Promise<T> = async (_query, result) => result,
  lockAttempts = 1,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once(pool, work, last);
    } catch (error) {
      if (error instanceof LostRace) {
        if (attempt >= attempts) throw contended(error);
      } else if (!(error instanceof Failure)) throw error;
      else if (isLocked(error.cause) && attempt < lockAttempts) await delay(lockPause);
      else if (attempt >= attempts || !isLostRace(error.cause)) throw accountsError(error.cause);
    }
  }
}

/** Thrown by the work of a transaction if somebody else changed what it had read: it is done again. */
export class LostRace extends Error {
  constructor() {
    super('the rows were changed after they were read');
  }
}

/** An error of the database or its connection, as opposed to one that `work` throws. */
class Failure extends Error {
  constructor(cause: unknown) {
    super('the database failed', { cause });
  }
}

function fail(error: unknown): never {
  throw new Failure(error);
}

async function once<T>(
  pool: Pool,
  work: (query: Query) => Promise<T>,
  last: (query: Query, result: T) => Promise<T>,
): Promise<T> {
  const client = await pool.connect().catch(fail);
  // Without a listener, losing the connection between two statements would end the process.
  client.on('error', ignore);
  const run: Query = async <R extends QueryResultRow>(text: string, values: readonly unknown[] = []) =>
    (await client.query<R>(text, [...values]).catch(fail)).rows;
  let lost = false;
  try {
    await run('BEGIN');
    const worked = await work(run);
    // Null if nothing was written, so that a lost response does not matter.
    const [{ id } = { id: null }] = await run<{ id: string | null }>(
      'SELECT pg_current_xact_id_if_assigned()::text AS id',
    );
    const result = await last(run, worked);
    lost = await commit(client, pool, id);
    return result;
  } catch (error) {
    lost = await client.query('ROLLBACK').then(
      () => false,
      () => true,
    );
    throw error;
  } finally {
    client.off('error', ignore);
    client.release(lost);
  }
}

function ignore(): void {}

/** Commits the transaction with this id. Returns whether the connection was lost, so that it cannot be used again. */
async function commit(client: ClientBase, pool: Pool, id: string | null): Promise<boolean> {
  try {
    await client.query('COMMIT');
    return false;
  } catch (error) {
    if (id === null || !isConnectionLost(error)) fail(error);
    if (!(await wasCommitted(pool, id, error))) fail(error);
    return true;
  }
}

/** Asks on another connection whether a commit succeeded, after its response was lost. */
async function wasCommitted(pool: Pool, id: string, cause: unknown): Promise<boolean> {
  for (let inquiry = 1; inquiry <= inquiries; inquiry += 1) {
    const status = await pool.query<{ status: string | null }>('SELECT pg_xact_status($1::xid8) AS status', [id]).then(
      ({ rows }) => rows[0]?.status,
      () => undefined,
    );
    if (status === 'committed') return true;
    if (status === 'aborted') return false;
    await delay(inquiryInterval);
  }
  throw new AccountsError(
    'store_unavailable',
    'the connection was lost during the commit, so the change may have been made: check before you repeat it',
    cause,
  );
}
