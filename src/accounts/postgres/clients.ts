import type { Client, ClientConfig, Pool } from 'pg';

/** The name under which an operator of the database sees the sidecar's connections. */
const applicationName = 'envelope-sidecar';

/** Timeouts of the server and of the client. Milliseconds. */
interface Patience {
  readonly connect: number;
  /** For one statement, enforced by the server. */
  readonly statement: number;
  /** For one statement, enforced by the client, in case the server does not respond at all. */
  readonly response: number;
}

/** Merchants' requests wait for look-ups. */
const lookUps: Patience = { connect: 2_000, statement: 1_000, response: 2_000 };

/** Changes are not urgent and may be large. */
const changes: Patience = { connect: 5_000, statement: 30_000, response: 35_000 };

/** How long a change waits for the commits of others. Milliseconds. */
export const lockTimeout = 5_000;

/** How long a migration waits for a lock. Meanwhile, all changes of the table wait behind it. Milliseconds. */
const migrationLockTimeout = 500;

/**
 * How long a change waits for another one of the same accounts before it is tried again, so that its connection serves others meanwhile.
 * Milliseconds.
 */
export const shortLockTimeout = 100;

/**
 * How long the first attempt of an urgent change waits for another change of the same account: others' urgent changes need its connection.
 * Milliseconds.
 */
export const urgentLockTimeout = 10;

/**
 * How long a transaction may do nothing. Shorter than `lockTimeout`: a sidecar that hangs in a change must not keep others
 * from revoking a key of the same account. Milliseconds.
 */
const idleInTransaction = 3_000;

/*
 * The driver takes 12 MB and 60 ms, so it is loaded with the first connection: a sidecar with an accounts file never loads it.
 */

/** A single connection for look-ups, not connected yet. */
export async function lookUpClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  return new pg.Client(optionsFor(url, lookUps));
}

/**
 * Passes `work` a look-up connection of its own, and ends it afterwards without waiting for the end: a peer that has gone silent would hold
 * up the caller.
 *
 * @throws what `work` throws, or the database's error
 */
export async function withLookUpClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await lookUpClient(url);
  // A lost connection fails the statement. Without a listener it would also end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    return await work(client);
  } finally {
    void client.end().catch(() => {});
  }
}

/** A single connection for migrations, not connected yet. Migrations have no time limit, but must not block other statements for long. */
export async function migrationClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  const { connect } = changes;
  return new pg.Client({
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: connect,
    lock_timeout: migrationLockTimeout,
  });
}

/** Connections for changes, made on demand and closed when they have been idle for a while. */
export async function changePool(url: string, size: number, locks = lockTimeout): Promise<Pool> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({
    ...optionsFor(url, changes),
    lock_timeout: locks,
    idle_in_transaction_session_timeout: idleInTransaction,
    max: size,
    idleTimeoutMillis: 30_000,
    // Open connections do not keep a finished command alive.
    allowExitOnIdle: true,
  });
  // A lost connection fails its statement, and the pool opens a new one on demand. Without a listener, it would also end the process,
  // whether it is idle or in use: the pool removes its own listener before it hands out a connection.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

function optionsFor(url: string, { connect, statement, response }: Patience): ClientConfig {
  return {
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: connect,
    statement_timeout: statement,
    query_timeout: response,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}
