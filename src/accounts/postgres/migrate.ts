import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { migrationClient } from './clients.ts';
import { accountsError, isLocked } from './failures.ts';

/** The schema of all tables. */
const schema = 'envelope_sidecar';

/** The folder of the migrations, each of which is an SQL file. */
export const migrationsFolder = fileURLToPath(new URL('migrations', import.meta.url));

/** Maximum number of attempts to lock tables, and the milliseconds between attempts, during which other transactions can make changes. */
const attempts = 20;
const pause = 2_000;

/**
 * Applies the missing migrations, in one transaction and under a lock. Returns their names. Migrations only add tables and columns, so that
 * sidecars of the previous version keep working.
 *
 * @param url connects as a user who owns the schema, or may create it
 * @param wait called once if another transaction holds a lock
 * @throws AccountsError if a migration fails, in which case nothing was changed
 */
export async function migrate(url: string, wait: () => void): Promise<string[]> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await migrateOnce(url);
    } catch (error) {
      if (attempt >= attempts || !isLocked(error)) throw accountsError(error);
      if (attempt === 1) wait();
      await delay(pause);
    }
  }
}

/** @throws the database's error */
async function migrateOnce(url: string): Promise<string[]> {
  const { runner } = await import('node-pg-migrate');
  const client = await migrationClient(url);
  // If the connection is lost, the current statement fails, so this event needs no handling. But without a listener, it would end the
  // process.
  client.on('error', () => {});
  try {
    await client.connect();
    const done = await runner({
      dbClient: client,
      dir: migrationsFolder,
      direction: 'up',
      schema,
      createSchema: true,
      migrationsTable: 'migrations',
      singleTransaction: true,
      advisoryLockMode: 'wait',
      log: () => {},
    });
    return done.map(({ name }) => name);
  } finally {
    await client.end();
  }
}
