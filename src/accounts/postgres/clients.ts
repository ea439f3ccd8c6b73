import type { Client, ClientConfig, Pool } from 'pg';

/** The name under which an operator of the database sees the sidecar's connections. */
const applicationName = 'envelope-sidecar';

/** How long the server and this side wait before they give up. Milliseconds. */
interface Patience {
  readonly connect: number;
  /** For one statement, held by the server. */
  readonly statement: number;
  /** For one statement, enforced here: for a server that does not even report its own timeout. */
  readonly response: number;
}

/** A request of a merchant waits for look-ups. */
const lookUps: Patience = { connect: 2_000, statement: 1_000, response: 2_000 };

/** People and programs that change accounts can wait, and the changes may be large. */
const changes: Patience = { connect: 5_000, statement: 30_000, response: 35_000 };

/** How long a change waits for another one to the same accounts. Milliseconds. */
const lockTimeout = 5_000;

/*
 * The driver takes 12 MB and 60 ms, so it is loaded with the first connection: a sidecar with an accounts' file never loads it.
 */

/** A single connection for look-ups, not connected yet. */
export async function lookUpClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  return new pg.Client(optionsFor(url, lookUps));
}

/** A single connection for migrations, not connected yet. They may take as long as they need, but hold up no one. */
export async function migrationClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  const { connect } = changes;
  return new pg.Client({
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: connect,
    lock_timeout: lockTimeout,
  });
}

/** Connections for changes, made on demand and closed when they have been idle for a while. */
export async function changePool(url: string, size: number): Promise<Pool> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({
    ...optionsFor(url, changes),
    lock_timeout: lockTimeout,
    // A sidecar that hangs must not keep others from changing an account.
    idle_in_transaction_session_timeout: changes.statement,
    max: size,
    idleTimeoutMillis: 30_000,
    // A command that has done its work ends, whatever is still open.
    allowExitOnIdle: true,
  });
  // An idle connection that is lost needs no handling: the pool opens a new one on demand.
  pool.on('error', () => {});
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
