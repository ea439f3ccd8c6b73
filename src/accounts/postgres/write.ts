import { environmentNames } from '../api-key.ts';
import type { StoredAccount, StoredCredentials, StoredEncryption } from '../store.ts';
import type { Query } from './transaction.ts';

/** A row to be written; times as RFC 3339. */
type Row = Readonly<Record<string, string | boolean | null>>;

/** Rows of one table, each with its primary key, in the order of insertion. */
type Rows = readonly (readonly [key: string, row: Row])[];

interface Table {
  readonly name: string;
  /** Columns of the primary key. */
  readonly key: readonly string[];
  /** All columns that are written, with their types. */
  readonly columns: Readonly<Record<string, string>>;
  /** The rows of an account. */
  readonly rowsOf: (account: StoredAccount) => Row[];
}

const tables: readonly Table[] = [
  {
    name: 'accounts',
    key: ['account_id'],
    columns: { account_id: 'text', name: 'text', active: 'boolean' },
    rowsOf: ({ id, name, active }) => [{ account_id: id, name, active }],
  },
  {
    name: 'api_keys',
    key: ['key_id'],
    columns: {
      key_id: 'text',
      account_id: 'text',
      prefix: 'text',
      hash: 'bytea',
      created_at: 'timestamptz',
      expires_at: 'timestamptz',
      revoked_at: 'timestamptz',
    },
    rowsOf: ({ id, keys }) =>
      keys.map((key) => ({
        key_id: key.id,
        account_id: id,
        prefix: key.prefix,
        hash: `\\x${key.hash}`,
        created_at: timestamp(key.createdAt),
        expires_at: timestamp(key.expiresAt),
        revoked_at: timestamp(key.revokedAt),
      })),
  },
  {
    name: 'encryption',
    key: ['account_id', 'environment'],
    columns: {
      account_id: 'text',
      environment: 'text',
      enabled: 'boolean',
      encoding: 'text',
      key: 'text',
      iv: 'text',
      format: 'text',
      created_at: 'timestamptz',
      previous_key: 'text',
      previous_iv: 'text',
      previous_format: 'text',
      previous_until: 'timestamptz',
    },
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

/** Replaces the rows of `before` by those of `after`; equal rows are not written. */
export async function writeAccounts(
  query: Query,
  before: readonly StoredAccount[],
  after: readonly StoredAccount[],
): Promise<void> {
  const changes = tables.map((table) => {
    const old = new Map(rowsOf(table, before));
    // Not a map by key, so that the database refuses a duplicate key.
    const wanted = rowsOf(table, after);
    const kept = new Set(wanted.map(([key]) => key));
    const changed = wanted.filter(([key, row]) => JSON.stringify(row) !== JSON.stringify(old.get(key)));
    return {
      table,
      removed: [...old].filter(([key]) => !kept.has(key)).map(([, row]) => row),
      updated: changed.filter(([key]) => old.has(key)).map(([, row]) => row),
      inserted: changed.filter(([key]) => !old.has(key)).map(([, row]) => row),
    };
  });
  // Rows that reference an account are deleted before it and inserted after it.
  for (const { table, removed } of changes.toReversed()) await write(query, removeFrom(table), removed);
  for (const { table, updated, inserted } of changes) {
    await write(query, update(table), updated);
    await write(query, insertInto(table), inserted);
  }
}

function rowsOf({ key, rowsOf: rows }: Table, accounts: readonly StoredAccount[]): Rows {
  return accounts.flatMap(rows).map((row) => [key.map((column) => String(row[column])).join(' '), row] as const);
}

/** Runs a statement on any number of rows, which are one JSON text in $1. */
async function write(query: Query, statement: string, rows: readonly Row[]): Promise<void> {
  if (rows.length > 0) await query(statement, [JSON.stringify(rows)]);
}

function source({ columns }: Table): string {
  const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
  return `ROWS FROM (json_to_recordset($1) AS (${types.join(', ')})) WITH ORDINALITY`;
}

function insertInto(table: Table): string {
  const columns = Object.keys(table.columns).join(', ');
  return `INSERT INTO envelope_sidecar.${table.name} (${columns})
    SELECT ${columns} FROM ${source(table)} AS given (${columns}, number) ORDER BY number`;
}

function update(table: Table): string {
  const columns = Object.keys(table.columns);
  return `UPDATE envelope_sidecar.${table.name} AS stored
    SET ${columns.map((column) => `${column} = given.${column}`).join(', ')}
    FROM ${source(table)} AS given (${columns.join(', ')}, number) WHERE ${sameKey(table)}`;
}

function removeFrom(table: Table): string {
  const columns = Object.keys(table.columns).join(', ');
  return `DELETE FROM envelope_sidecar.${table.name} AS stored
    USING ${source(table)} AS given (${columns}, number) WHERE ${sameKey(table)}`;
}

function sameKey({ key }: Table): string {
  return key.map((column) => `stored.${column} = given.${column}`).join(' AND ');
}
