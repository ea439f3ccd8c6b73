import { fileURLToPath } from 'node:url';
import { migrationClient } from './clients.ts';
import { accountsError } from './failures.ts';

/** The schema of all tables. */
const schema = 'envelope_sidecar';

/** The folder of the migrations, one SQL file each. */
export const migrationsFolder = fileURLToPath(new URL('migrations', import.meta.url));

/**
 * Brings the tables to the state this version needs: carries out, in one transaction and under a lock, the migrations
 * the database has not had yet. Returns their names. They only ever add, so that sidecars of the version before go on.
 *
 * @param url of a user who owns the schema, or may create it
 * @throws AccountsError nothing was changed then
 */
export async function migrate(url: string): Promise<string[]> {
  const { runner } = await import('node-pg-migrate');
  const client = await migrationClient(url);
  // A lost connection fails the statement in progress; without a listener it would end the process, too.
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
  } catch (error) {
    throw accountsError(error);
  } finally {
    await client.end();
  }
}
