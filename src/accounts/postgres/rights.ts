import { query, type Query } from './transaction.ts';
import type { Pool } from 'pg';

// The rights that docs/postgresql.md grants, by table.

/** The rights of a sidecar that only serves merchants. */
const serving: readonly (readonly [rights: readonly string[], tables: readonly string[]])[] = [
  [['SELECT'], ['accounts', 'api_keys', 'encryption', 'migrations']],
  [
    ['SELECT', 'INSERT', 'UPDATE'],
    ['key_uses', 'previous_uses', 'key_hours'],
  ],
];

/** The rights of commands, and of sidecars with the operators' API. */
const operating: typeof serving = [
  [
    ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
    ['accounts', 'api_keys', 'encryption', 'key_uses', 'previous_uses', 'key_hours', 'receipts'],
  ],
  [['SELECT'], ['audit']],
  [['SELECT', 'INSERT'], ['trail']],
  [['SELECT'], ['migrations']],
];

/** Functions that every database user of a sidecar calls. By default, PostgreSQL allows all users to call them. */
const called = ['last_change()', 'unannounced_changes()', 'forget_key_hours()', 'trail_state(bigint)'];

/** A message about missing rights. */
export function describeMissing(missing: readonly string[]): string {
  return `the database user lacks ${missing.join(', ')}: grant it`;
}

/** Whether the accounts can be read although these rights are missing. */
export function canRead(missing: readonly string[]): boolean {
  return !missing.some((right) =>
    /^(?:USAGE|SELECT on (?:accounts|api_keys|encryption|key_uses|previous_uses)$)/.test(right),
  );
}

/** What is wrong with the rights of the database's user. */
interface Rights {
  /**
   * Rights that the user lacks, such as `SELECT on receipts`. A user that may add accounts needs an operator's rights; any other user needs
   * the rights of a sidecar that only serves merchants.
   */
  readonly missing: readonly string[];
  /** True if the user may not add accounts but can use up all connections of the server, so that nobody else could change accounts. */
  readonly isUnlimited: boolean;
  /** Why some changes cannot be made even though the user has the rights; undefined if there is no obstacle. */
  readonly obstacle: string | undefined;
}

/** Settings of the database that apply to sessions of its user. */
interface Session {
  readonly encoding: string;
  readonly read_only: string;
}

function describeObstacle(session: Session | undefined): string | undefined {
  if (session?.read_only === 'on')
    return 'its transactions are read-only for this user (default_transaction_read_only)';
  return session?.encoding === 'UTF8' ? undefined : `its encoding is ${session?.encoding}, and names need UTF8`;
}

/**
 * Queries the rights of the database's user. Rights on a table that does not exist do not count as missing.
 *
 * @param hasOperators whether the user needs an operator's rights even if it may not add accounts
 */
export async function readRights(pool: Pool, hasOperators: boolean): Promise<Rights> {
  // Without this right, the rights on the tables cannot be queried.
  const [schema] = await query<{ usable: boolean }>(
    pool,
    `SELECT has_schema_privilege('envelope_sidecar', 'USAGE') AS usable`,
  );
  if (schema?.usable !== true)
    return { missing: ['USAGE on the schema envelope_sidecar'], isUnlimited: false, obstacle: undefined };
  const [user] = await query<{ operates: boolean; unlimited: boolean } & Session>(
    pool,
    `SELECT has_table_privilege('envelope_sidecar.accounts', 'INSERT') AS operates, rolconnlimit < 0 AS unlimited,
        getdatabaseencoding() AS encoding, current_setting('transaction_read_only') AS read_only
      FROM pg_roles WHERE rolname = current_user`,
  );
  const wanted = (hasOperators || user?.operates === true ? operating : serving).flatMap(([rights, tables]) =>
    tables.flatMap((table) => rights.map((right) => ({ table, right }))),
  );
  // UPDATE on some columns is enough. DELETE always concerns whole rows, so it is checked on the table.
  const lacking = await query<{ table: string; right: string }>(
    pool,
    `SELECT "table", "right"
      FROM json_to_recordset($1) AS wanted ("table" text, "right" text),
        to_regclass('envelope_sidecar.' || "table") AS found
      WHERE NOT CASE "right"
        WHEN 'UPDATE' THEN has_any_column_privilege(found, 'UPDATE')
        ELSE has_table_privilege(found, "right") END
    UNION ALL SELECT 'function ' || name, 'EXECUTE'
      FROM unnest($2::text[]) AS name, to_regprocedure('envelope_sidecar.' || name) AS found
      WHERE NOT has_function_privilege(found, 'EXECUTE')`,
    [JSON.stringify(wanted), called],
  );
  const missing = lacking.map(({ table, right }) => `${right} on ${table}`);
  return { missing, isUnlimited: user?.operates === false && user.unlimited, obstacle: describeObstacle(user) };
}

/** The roles, except for the table's owner, that may insert into the previous version's table of events. */
export async function olderWriters(run: Query): Promise<readonly string[]> {
  const found = await run<{ role: string }>(
    `SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee) END AS role
      FROM pg_class, aclexplode(relacl)
      WHERE oid = 'envelope_sidecar.audit'::regclass AND privilege_type = 'INSERT' AND grantee <> relowner ORDER BY role`,
  );
  return found.map(({ role }) => role);
}
