import type { Client, ClientConfig, Pool } from 'pg';

/** The name under which the sidecar's connections are listed in the database. */
const applicationName = 'envelope-sidecar';

/**
 * Settings that end connections. Any role may change its own defaults, and would then cut off all sidecars that connect as this role, even
 * after a restart. What a client asks for when it connects overrides these defaults.
 */
const pinned = '-c idle_session_timeout=0 -c tcp_user_timeout=0';

/** The timeouts of the server and of the client, in milliseconds. */
interface Patience {
  readonly connect: number;
  /** For one statement, enforced by the server. */
  readonly statement: number;
  /** For one statement, enforced by the client, in case the server does not respond at all. */
  readonly response: number;
}

/** The timeouts of look-ups, which are short because merchants' requests wait for look-ups. */
const lookUps: Patience = { connect: 2_000, statement: 1_000, response: 2_000 };

/** The timeouts of changes, which are longer because changes may be large and are less urgent than look-ups. */
const changes: Patience = { connect: 5_000, statement: 30_000, response: 35_000 };

/** How long a change waits for other changes to commit, in milliseconds. */
export const lockTimeout = 5_000;

/** How long a migration waits for a lock on a table, in milliseconds. In the meantime, all changes to the table wait behind it. */
const migrationLockTimeout = 500;

/**
 * How long a change waits for another change to the same accounts, in milliseconds. After that, it releases its connection, which other
 * work can then use, and is tried again later.
 */
export const shortLockTimeout = 100;

/**
 * How long the first attempt of an urgent change waits for another change to the same account, in milliseconds. The wait is short, because
 * other urgent changes need the connection.
 */
export const urgentLockTimeout = 10;

/**
 * How long a transaction may be idle, in milliseconds. This is shorter than `lockTimeout`, because a sidecar that hangs in a change must
 * not keep other sidecars from revoking a key of the same account.
 */
const idleInTransaction = 3_000;

/*
 * The driver takes 12 MB and 60 ms to load. It is loaded with the first connection, so a sidecar with an accounts file never loads it.
 */

/** Creates a client for look-ups, which is not connected yet. */
export async function lookUpClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  return new pg.Client(optionsFor(url, lookUps));
}

/**
 * Runs `work` with a look-up connection of its own. The connection is closed afterwards, but the caller does not wait for that, because a
 * database that no longer responds would delay the caller.
 *
 * @throws whatever `work` throws, or the database's error
 */
export async function withLookUpClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await lookUpClient(url);
  // If the connection is lost, the statement fails, so this event needs no handling. But without a listener, it would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    return await work(client);
  } finally {
    void client.end().catch(() => {});
  }
}

/** Creates a client for migrations, not connected yet. Migrations have no time limit, but must not block other statements for long. */
export async function migrationClient(url: string): Promise<Client> {
  const { default: pg } = await import('pg');
  const { connect } = changes;
  return new pg.Client({
    connectionString: url,
    application_name: applicationName,
    options: pinned,
    connectionTimeoutMillis: connect,
    lock_timeout: migrationLockTimeout,
  });
}

/** A pool of connections for changes. It opens connections on demand and closes those that have been idle for a while. */
export async function changePool(url: string, size: number, locks = lockTimeout): Promise<Pool> {
  const { default: pg } = await import('pg');
  /**
   * A client that fails to connect if a file that the URL names, such as a certificate, cannot be read. The constructor of `pg.Client` throws
   * in that case, which would end the process if the pool created the client in an event handler.
   */
  class PoolClient extends pg.Client {
    readonly problem: unknown;

    constructor(options?: string | ClientConfig) {
      try {
        super(options);
      } catch (error) {
        super();
        this.problem = error;
      }
    }

    override connect(): Promise<Client>;
    override connect(callback: (error: Error) => void): void;
    override connect(callback?: (error: Error) => void): Promise<Client> | void {
      if (this.problem === undefined) return callback === undefined ? super.connect() : super.connect(callback);
      if (callback === undefined) return Promise.reject(this.problem);
      process.nextTick(callback, this.problem);
    }
  }
  const pool = new pg.Pool({
    ...optionsFor(url, changes),
    Client: PoolClient,
    lock_timeout: locks,
    idle_in_transaction_session_timeout: idleInTransaction,
    max: size,
    idleTimeoutMillis: 30_000,
    // Open connections must not keep the process of a command running once the command has finished.
    allowExitOnIdle: true,
  });
  // If a connection is lost, its statement fails, and the pool opens a new connection on demand, so these events need no handling. But
  // without listeners, they would end the process. Each connection needs a listener of its own, because the pool removes the pool's
  // listener from a connection that it hands out.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

function optionsFor(url: string, { connect, statement, response }: Patience): ClientConfig {
  return {
    connectionString: url,
    application_name: applicationName,
    options: pinned,
    connectionTimeoutMillis: connect,
    statement_timeout: statement,
    query_timeout: response,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}
