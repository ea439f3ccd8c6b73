import { readdirSync } from 'node:fs';
import type { Pool } from 'pg';
import { AccountsError } from '../accounts-error.ts';
import { unwrapAccount } from '../unwrap-account.ts';
import type { CredentialsSample } from '../accounts.ts';
import type { StoredAccount } from '../store.ts';
import type { Vault } from '../vault.ts';
import { changePool } from './clients.ts';
import { migrationsFolder } from './migrate.ts';
import { accountIfReadable, selectAccounts, type AccountRow } from './rows.ts';
import { query } from './transaction.ts';

/** The state of the tables, and a sample of accounts. */
export interface Inspection {
  /** Migrations of this version that the database lacks. */
  readonly pending: readonly string[];
  /** Accounts that have credentials, chosen at random. */
  readonly sample: readonly StoredAccount[];
  /** Rows of the sample that cannot be read. */
  readonly unreadable: readonly AccountsError[];
}

/** Unwraps the credentials of a sample. */
export function unwrapSample({ sample, unreadable }: Inspection, vault: Vault): CredentialsSample {
  const errors = [...unreadable];
  let unwrapped = 0;
  for (const account of sample) {
    try {
      unwrapAccount(account, vault);
      unwrapped += 1;
    } catch (error) {
      if (!(error instanceof AccountsError)) throw error;
      errors.push(error);
    }
  }
  const failures = errors.map(({ message }) => message);
  const noneUnwraps = unwrapped === 0 && errors.some(({ code }) => code === 'master_key_wrong');
  return { tried: sample.length + unreadable.length, failures, noneUnwraps };
}

/**
 * Inspects a database without changing it.
 *
 * @param maxSample the most accounts in the sample
 * @throws AccountsError the database cannot be reached, or lacks tables or columns
 */
export async function inspect(url: string, maxSample: number): Promise<Inspection> {
  const pool = await changePool(url, 1);
  try {
    const rows = await query<AccountRow>(
      pool,
      `${selectAccounts} WHERE a.account_id IN (
        SELECT account_id FROM envelope_sidecar.encryption WHERE key IS NOT NULL OR previous_key IS NOT NULL
        GROUP BY account_id ORDER BY random() LIMIT $1)`,
      [maxSample],
    );
    const unreadable: AccountsError[] = [];
    const report = (error: AccountsError): void => void unreadable.push(error);
    const sample = rows.map((row) => accountIfReadable(row, report)).filter((account) => account !== undefined);
    const done = await migrationsDone(pool);
    const pending = done === undefined ? [] : ownMigrations().filter((name) => !done.has(name));
    return { pending, sample, unreadable };
  } finally {
    await pool.end();
  }
}

function ownMigrations(): string[] {
  return readdirSync(migrationsFolder)
    .map((file) => file.replace(/\.\w+$/, ''))
    .toSorted();
}

/** Undefined if this database user may not read the table, which a sidecar does not need. */
async function migrationsDone(pool: Pool): Promise<ReadonlySet<string> | undefined> {
  try {
    const rows = await query<{ name: string }>(pool, 'SELECT name FROM envelope_sidecar.migrations');
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (error instanceof AccountsError && error.code === 'store_read_only') return undefined;
    throw error;
  }
}
