import { environmentNames } from '../api-key.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption } from '../store.ts';
import { LostRace, type Query } from './transaction.ts';

/** A row to be written. Times are in RFC 3339 format. */
type Row = Readonly<Record<string, string | boolean | null>>;

/** Rows of one table, each with its primary key, in the order in which they are inserted. */
type Rows = readonly (readonly [key: string, row: Row])[];

interface Table {
  readonly name: string;
  /** The columns of the primary key. */
  readonly key: readonly string[];
  /** The rows of an account, each with all columns that are written. */
  readonly rowsOf: (account: StoredAccount) => Row[];
}

const tables: readonly Table[] = [
  {
    name: 'accounts',
    key: ['account_id'],
    rowsOf: ({ id, name, active }) => [{ account_id: id, name, active }],
  },
  {
    name: 'api_keys',
    key: ['key_id'],
    rowsOf: ({ id, keys }) =>
      keys.map((key) => ({
        key_id: key.id,
        account_id: id,
        prefix: key.prefix,
        hash: `\\x${key.hash}`,
        name: key.name ?? null,
        last_four: key.lastFour ?? null,
        created_at: timestamp(key.createdAt),
        expires_at: timestamp(key.expiresAt),
        revoked_at: timestamp(key.revokedAt),
      })),
  },
  {
    name: 'encryption',
    key: ['account_id', 'environment'],
    rowsOf: ({ id, encryption }) =>
      environmentNames.flatMap((environment) => {
        const stored = encryption[environment];
        return stored === undefined ? [] : [{ account_id: id, environment, ...encryptionRow(stored) }];
      }),
  },
];

function encryptionRow({ enabled, encoding, credentials, previous }: StoredEncryption): Row {
  return {
    enabled,
    encoding,
    ...credentialsRow('', credentials),
    created_at: timestamp(credentials?.createdAt),
    ...credentialsRow('previous_', previous?.credentials),
    previous_until: timestamp(previous?.until),
  };
}

function credentialsRow(prefix: string, credentials: StoredCredentials | undefined): Row {
  return {
    [`${prefix}key`]: credentials?.key ?? null,
    [`${prefix}iv`]: credentials?.iv ?? null,
    [`${prefix}format`]: credentials?.format ?? null,
  };
}

function timestamp(milliseconds: number | undefined): string | null {
  return milliseconds === undefined ? null : new Date(milliseconds).toISOString();
}

/** The versions of the rows that were read, by table and primary key. */
export type Versions = ReadonlyMap<string, string>;

/** The name of a row in `Versions`. @param key the values of the primary key's columns, separated by spaces */
export function rowName(table: string, key: string): string {
  return `${table} ${key}`;
}

/**
 * Replaces the rows of `before` with the rows of `after`. Rows that are equal are not written.
 *
 * @param versions the versions of the rows of `before`
 * @throws LostRace if a row to be written no longer has the version in `versions`, because it was changed in SQL after it was read
 */
export async function writeAccounts(
  query: Query,
  before: readonly StoredAccount[],
  after: readonly StoredAccount[],
  versions: Versions,
): Promise<void> {
  const changes = tables.map((table) => {
    const old = new Map(collectRows(table, before));
    // This is a list, because a map would drop a duplicate key, which the database must refuse.
    const wanted = collectRows(table, after);
    const wantedKeys = new Set(wanted.map(([key]) => key));
    const changed = wanted.filter(([key, row]) => JSON.stringify(row) !== JSON.stringify(old.get(key)));
    return {
      table,
      old,
      removed: [...old].filter(([key]) => !wantedKeys.has(key)),
      updated: changed.filter(([key]) => old.has(key)),
      inserted: changed.filter(([key]) => !old.has(key)),
    };
  });
  // Rows that reference an account are deleted before that account and inserted after it.
  for (const { table, removed } of changes.toReversed()) await write(query, remove, table, removed, versions);
  for (const { table, old, updated, inserted } of changes) {
    await write(query, update, table, updated, versions);
    await write(query, insert, table, inserted);
    if (table.name === 'encryption') await keepGraceUses(query, old, updated);
  }
}

/**
 * Keeps the recorded use of a grace period if only the end of the grace period was changed. A recorded use belongs to the grace period that
 * ends at its `until`, so `until` is changed as well. A row that another transaction has locked is left alone, because every role that serves
 * merchants may lock these rows, and the change must not wait for it.
 */
async function keepGraceUses(query: Query, old: ReadonlyMap<string, Row>, updated: Rows): Promise<void> {
  const moved = updated.flatMap(([key, row]) => {
    const before = old.get(key)?.['previous_until'] ?? null;
    const isSame = JSON.stringify({ ...row, previous_until: before }) === JSON.stringify(old.get(key));
    return isSame && before !== null && row['previous_until'] !== null ? [{ ...row, before }] : [];
  });
  if (moved.length > 0) await query(moveUses, [JSON.stringify(moved)]);
}

const moveUses = `
  WITH moved AS (
    SELECT account_id, environment, given.previous_until
    FROM json_to_recordset($1) AS given (account_id text, environment text, before timestamptz, previous_until timestamptz)
    JOIN envelope_sidecar.previous_uses AS stored USING (account_id, environment)
    WHERE stored.until = given.before
    FOR NO KEY UPDATE OF stored SKIP LOCKED
  )
  UPDATE envelope_sidecar.previous_uses AS stored SET until = moved.previous_until FROM moved
  WHERE stored.account_id = moved.account_id AND stored.environment = moved.environment`;

function collectRows({ key, rowsOf: rows }: Table, accounts: readonly StoredAccount[]): Rows {
  return accounts.flatMap(rows).map((row) => [key.map((column) => String(row[column])).join(' '), row] as const);
}

/** Makes a statement that writes the given rows, which have these columns. */
type Statement = (table: Table, given: string, columns: readonly string[]) => string;

/**
 * Runs a statement on any number of rows. $1 contains all rows as JSON, which the statement converts to the types of the table's columns. If
 * `versions` is given, $2 contains the versions that the rows must have.
 */
async function write(query: Query, statement: Statement, table: Table, rows: Rows, versions?: Versions): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const given = `json_populate_recordset(NULL::envelope_sidecar.${table.name}, $1) WITH ORDINALITY AS given`;
  const values = versions === undefined ? [] : [rows.map(([key]) => versions.get(rowName(table.name, key)))];
  const json = JSON.stringify(rows.map(([, row]) => row));
  const written = await query(statement(table, given, Object.keys(first[1])), [json, ...values]);
  if (versions !== undefined && written.length < rows.length) throw new LostRace();
}

const insert: Statement = ({ name }, given, columns) => `
  INSERT INTO envelope_sidecar.${name} (${columns.join(', ')})
  SELECT ${columns.join(', ')} FROM ${given} ORDER BY ordinality`;

const update: Statement = (table, given, columns) => `
  UPDATE envelope_sidecar.${table.name} AS stored
  SET ${columns.map((column) => `${column} = given.${column}`).join(', ')}
  FROM ${given} WHERE ${isAsRead(table)} RETURNING true`;

const remove: Statement = (table, given) => `
  DELETE FROM envelope_sidecar.${table.name} AS stored USING ${given} WHERE ${isAsRead(table)} RETURNING true`;

/** The condition that a row is the given one and was not changed after it was read. Each change gives a row a new `xmin`. */
function isAsRead({ key }: Table): string {
  const sameKey = key.map((column) => `stored.${column} = given.${column}`).join(' AND ');
  return `${sameKey} AND stored.xmin::text = ($2::text[])[given.ordinality]`;
}

/** Deletes those keys of removed accounts that were not read because there were too many of them. */
export async function removeUnreadKeys(
  query: Query,
  accounts: readonly string[],
  read: readonly StoredAccount[],
): Promise<void> {
  const keys = read.flatMap((account) => account.keys.map(({ id }) => id));
  await query('DELETE FROM envelope_sidecar.api_keys WHERE account_id = ANY ($1) AND key_id <> ALL ($2)', [
    accounts,
    keys,
  ]);
}
