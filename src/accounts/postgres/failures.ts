import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';

/** The server's code for an error (PostgreSQL, appendix A); undefined if the error is not from the server. */
function sqlState(error: unknown): string | undefined {
  const { severity, code } = Object(error) as { severity?: unknown; code?: unknown };
  // Socket errors have codes too, but no severity.
  return severity !== undefined && typeof code === 'string' ? code : undefined;
}

/** Whether the connection failed, so that the outcome of the statement is unknown. */
export function isConnectionLost(error: unknown): boolean {
  const state = sqlState(error);
  // 57P: the server is shutting down, has crashed or is starting; 08: connection exceptions.
  return state === undefined || state.startsWith('57P') || state.startsWith('08');
}

/** Whether a concurrent change caused the failure, so that a retry may succeed. */
export function isLostRace(error: unknown): boolean {
  const state = sqlState(error);
  // Class 40 stands for deadlocks and serialization failures.
  const constraint = violatedConstraint(error);
  return state?.startsWith('40') === true || constraint === 'accounts_pkey' || constraint === 'encryption_pkey';
}

/** Whether another transaction held a lock for too long. */
export function isLocked(error: unknown): boolean {
  return sqlState(error) === lockNotAvailable;
}

const lockNotAvailable = '55P03';

/** Whether PostgreSQL's queue of notifications is full. A commit can exceed no other program limit (54000). */
export function isQueueFull(error: unknown): boolean {
  return sqlState(error) === '54000';
}

const migrate = 'run "accounts migrate"';

/** The meanings of errors, by the server's code or its prefix. The server's own messages are not used, because they may quote values. */
const meanings: readonly (readonly [state: string, code: AccountsErrorCode, message: string])[] = [
  ['25006', 'store_read_only', 'the database is read-only at the moment'],
  [
    '42501',
    'store_read_only',
    'the database user may not do this: grant it the rights it needs, or migrate as the owner of the tables (docs/postgresql.md)',
  ],
  ['53100', 'disk_full', 'the disk of the database is full'],
  [lockNotAvailable, 'store_locked', 'another transaction is changing the accounts: try again'],
  ['42P01', 'store_invalid', `the database lacks a table of this version: ${migrate}`],
  ['42703', 'store_invalid', `the database lacks a column of this version: ${migrate}`],
  ['42883', 'store_invalid', `the database lacks a function of this version: ${migrate}`],
  ['3F000', 'store_invalid', `the database lacks the schema envelope_sidecar: ${migrate}`],
  ['23', 'store_invalid', 'the database rejected the values to be stored'],
  ['22', 'store_invalid', 'the database rejected the values to be stored'],
  ['28', 'store_unavailable', 'the database rejected the user or the password'],
  ['3D000', 'store_unavailable', 'there is no database with this name'],
  ['53300', 'store_unavailable', 'the database has no connections left'],
  ['57014', 'store_unavailable', 'the database did not respond in time'],
];

/** The error for a change that conflicted with another change on every attempt. */
export function contended(cause: unknown): AccountsError {
  return new AccountsError('store_locked', 'other transactions keep changing the accounts: try again', cause);
}

/** Converts the failure of a statement to an error for the caller. */
export function accountsError(error: unknown): AccountsError {
  if (error instanceof AccountsError) return error;
  const constraint = violatedConstraint(error);
  if (constraint === 'api_keys_pkey' || constraint === 'api_keys_hash_key') {
    return new AccountsError('key_exists', 'the id or the hash of a key already belongs to another account', error);
  }
  if (isConnectionLost(error)) {
    return new AccountsError('store_unavailable', `the database cannot be reached (${reason(error)})`, error);
  }
  const state = sqlState(error) ?? '';
  if (state.startsWith('40')) return contended(error);
  const [, code, message] = meanings.find(([known]) => state.startsWith(known)) ?? [
    '',
    'store_unavailable',
    `the database failed (${state})`,
  ];
  return new AccountsError(code, message, error);
}

/** The meanings of driver errors without a code. The driver's own messages must not be shown to clients. */
const driverFailures: readonly (readonly [message: RegExp, meaning: string])[] = [
  [/timeout/i, 'the connection timed out'],
  [/SASL|password/i, 'the password is missing or was rejected'],
];

/** The system's code for a network failure, such as ECONNREFUSED, or the meaning of the driver's message. */
function reason(error: unknown): string {
  const { code, message, path } = Object(error) as { code?: unknown; message?: unknown; path?: unknown };
  // An error with a path is about a file that the URL names, such as a certificate or its key.
  if (typeof code === 'string') return typeof path === 'string' ? `cannot read ${path}: ${code}` : code;
  return driverFailures.find(([known]) => known.test(String(message)))?.[1] ?? 'the connection failed';
}

function violatedConstraint(error: unknown): unknown {
  return sqlState(error) === '23505' ? (error as { constraint?: unknown }).constraint : undefined;
}
