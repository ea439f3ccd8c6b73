import { readdirSync } from 'node:fs';
import type { Pool } from 'pg';
import { AccountsError } from '../accounts-error.ts';
import { unwrapAccount } from '../unwrap-account.ts';
import type { CredentialsSample } from '../accounts.ts';
import type { StoredAccount } from '../store.ts';
import type { Vault } from '../vault.ts';
import { changePool, withLookUpClient } from './clients.ts';
import { accountsError } from './failures.ts';
import { migrationsFolder } from './migrate.ts';
import { accountIfReadable, selectWithoutKeys, type AccountRow } from './rows.ts';
import { canRead, describeMissing, readRights } from './rights.ts';
import { query } from './transaction.ts';

/** The state of a database that has the tables of this version, with a sample of its accounts. */
export interface Inspection {
  /** Rights that the database user lacks, such as `SELECT on receipts`. */
  readonly missingRights: readonly string[];
  /** True if the user may not add accounts but can use up all connections of the server. */
  readonly isUnlimited: boolean;
  /** Why some changes cannot be made even though the user has the rights; undefined if there is no obstacle. */
  readonly obstacle: string | undefined;
  readonly isEmpty: boolean;
  /** Accounts that have credentials, chosen at random, without their keys. */
  readonly sample: readonly StoredAccount[];
  /** The errors for rows of the sample that cannot be read. */
  readonly unreadable: readonly AccountsError[];
}

/** Unwraps the credentials of a sample. */
export function unwrapSample(
  { sample, unreadable }: Pick<Inspection, 'sample' | 'unreadable'>,
  vault: Vault,
): CredentialsSample {
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
 * @param maxSample the maximum number of accounts in the sample
 * @param hasOperators whether the user of the database must be able to change accounts
 * @throws AccountsError if the database cannot be reached or lacks a migration of this version, or if its user may not read accounts
 */
export async function inspect(url: string, maxSample: number, hasOperators = false): Promise<Inspection> {
  const pool = await changePool(url, 1);
  try {
    const schema = await readSchema(pool);
    if (schema.at < schema.needed) {
      const message = `the schema is at version ${schema.at}, but version ${schema.needed} is needed: run "accounts migrate"`;
      throw new AccountsError('store_invalid', message);
    }
    const { missing, isUnlimited, obstacle } = await readRights(pool, hasOperators);
    if (!canRead(missing)) throw new AccountsError('store_read_only', describeMissing(missing));
    const rows = await query<AccountRow>(
      pool,
      `${selectWithoutKeys} WHERE a.account_id IN (
        SELECT account_id FROM envelope_sidecar.encryption WHERE key IS NOT NULL OR previous_key IS NOT NULL
        GROUP BY account_id ORDER BY random() LIMIT $1)`,
      [maxSample],
    );
    const unreadable: AccountsError[] = [];
    const report = (error: AccountsError): void => void unreadable.push(error);
    const sample = rows.map((row) => accountIfReadable(row, report)).filter((account) => account !== undefined);
    const hasOne = async (): Promise<boolean> =>
      (await query(pool, 'SELECT true FROM envelope_sidecar.accounts LIMIT 1')).length > 0;
    const isEmpty = rows.length === 0 && !(await hasOne());
    return { missingRights: missing, isUnlimited, obstacle, isEmpty, sample, unreadable };
  } finally {
    await pool.end();
  }
}

/** The number of accounts. @throws AccountsError also if the database does not respond within a few seconds */
export async function countAccounts(url: string): Promise<number> {
  const text = 'SELECT count(*)::float8 AS count FROM envelope_sidecar.accounts';
  try {
    const { rows } = await withLookUpClient(url, (client) => client.query<{ count: number }>(text));
    return rows[0]?.count ?? 0;
  } catch (error) {
    throw accountsError(error);
  }
}

/**
 * How many of this version's migrations the database has, and how many it needs. Migrations of later versions are not counted.
 */
async function readSchema(pool: Pool): Promise<{ readonly at: number; readonly needed: number }> {
  const own = readdirSync(migrationsFolder).map((file) => file.replace(/\.\w+$/, ''));
  const done = await migrationsDone(pool);
  return { at: done === undefined ? own.length : own.filter((name) => done.has(name)).length, needed: own.length };
}

/** The names of the applied migrations; undefined if the user may not read them. If a table is missing, a later query then fails. */
async function migrationsDone(pool: Pool): Promise<ReadonlySet<string> | undefined> {
  const [found] = await query<{ exists: boolean }>(
    pool,
    `SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'envelope_sidecar' AND tablename = 'migrations')`,
  );
  if (found?.exists !== true) return new Set();
  try {
    const rows = await query<{ name: string }>(pool, 'SELECT name FROM envelope_sidecar.migrations');
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (error instanceof AccountsError && error.code === 'store_read_only') return undefined;
    throw error;
  }
}
