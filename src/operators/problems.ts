import { z } from 'zod';
import type { AccountsErrorCode } from '../accounts/accounts-error.ts';

interface Row {
  readonly status: number;
  /** RFC 9457 `title`: the same for every occurrence. */
  readonly title: string;
  /** Seconds for `Retry-After`. Only temporary problems have it. */
  readonly retryAfter?: number;
}

/** Every error of the operators' API, including errors from operations on accounts. A test compares this table with docs/accounts.md. */
const table = {
  invalid_request: { status: 400, title: 'Request invalid' },
  malformed_request: { status: 400, title: 'Request malformed' },
  malformed_body: { status: 400, title: 'Body malformed' },
  unauthorized: { status: 401, title: 'Token missing or wrong' },
  forbidden: { status: 403, title: 'Forbidden' },
  not_found: { status: 404, title: 'No such endpoint' },
  account_unknown: { status: 404, title: 'Account unknown' },
  key_unknown: { status: 404, title: 'API key unknown' },
  request_timeout: { status: 408, title: 'Request timeout' },
  account_exists: { status: 409, title: 'Account exists' },
  account_in_use: { status: 409, title: 'Account in use' },
  account_differs: { status: 409, title: 'Account differs' },
  key_exists: { status: 409, title: 'API key exists' },
  key_expired: { status: 409, title: 'API key expired' },
  key_rotated: { status: 409, title: 'API key already rotated' },
  key_revoked: { status: 409, title: 'API key revoked' },
  too_many_keys: { status: 409, title: 'Too many API keys' },
  lifetime_not_allowed: { status: 409, title: 'Lifetime not allowed' },
  encryption_enabled: { status: 409, title: 'Encryption already enabled' },
  grace_running: { status: 409, title: 'Grace period still running' },
  encryption_disabled: { status: 409, title: 'Encryption not enabled' },
  grace_not_running: { status: 409, title: 'No grace period is running' },
  until_not_allowed: { status: 409, title: 'End of the grace period not allowed' },
  credentials_equal: { status: 409, title: 'Credentials identical' },
  audit_key_missing: { status: 409, title: 'Audit key missing' },
  store_read_only: { status: 409, title: 'Accounts are read-only here' },
  body_too_large: { status: 413, title: 'Body too large' },
  unsupported_media_type: { status: 415, title: 'Body must be application/json' },
  unknown_host: { status: 421, title: 'Host unknown' },
  headers_too_large: { status: 431, title: 'Headers too large' },
  idempotency_key_reused: { status: 422, title: 'Idempotency key reused' },
  internal_error: { status: 500, title: 'Internal error' },
  kms_refused: { status: 500, title: 'KMS refused' },
  master_key_missing: { status: 500, title: 'Master key missing' },
  master_key_wrong: { status: 500, title: 'Master key wrong' },
  master_key_not_configured: { status: 409, title: 'Master key not configured' },
  store_invalid: { status: 500, title: 'Accounts not valid' },
  store_changed: { status: 503, title: 'Accounts being changed', retryAfter: 1 },
  store_locked: { status: 503, title: 'Accounts locked', retryAfter: 1 },
  kms_unavailable: { status: 503, title: 'KMS unavailable', retryAfter: 5 },
  overloaded: { status: 503, title: 'Overloaded', retryAfter: 1 },
  store_unavailable: { status: 503, title: 'Accounts unavailable', retryAfter: 5 },
  disk_full: { status: 507, title: 'Disk full' },
} satisfies Record<AccountsErrorCode, Row> & Record<string, Row>;
export type ProblemCode = keyof typeof table;
export const problems: Readonly<Record<ProblemCode, Row>> = table;

/** A problem with one member of a request. Its path is written like `keys[0].id`, or `.` for the whole input. */
const memberProblem = z.object({ path: z.string(), message: z.string() });
export type MemberProblem = z.output<typeof memberProblem>;

/** The body of a problem (RFC 9457). */
export const problemDocument = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.enum(Object.keys(table) as ProblemCode[]).describe('Identifies the problem to programs.'),
    request_id: z.string(),
    errors: z
      .array(memberProblem)
      .optional()
      .describe('With `invalid_request`: the first 20 problems, each with its member.'),
  })
  .describe('A problem document (RFC 9457).');

/** Thrown to end a request with a problem document (RFC 9457). The error's message becomes the `detail`. */
export class ApiProblem extends Error {
  readonly code: ProblemCode;
  readonly members: MemberProblem[] | undefined;

  constructor(code: ProblemCode, detail: string, members?: MemberProblem[]) {
    super(detail);
    this.code = code;
    this.members = members;
  }
}

/**
 * The page that explains the codes: docs/accounts.md, published next to docs/errors.md with an address of the same form.
 *
 * @param documentation the address of docs/errors.md: `https://docs.example/errors` gives `https://docs.example/accounts`
 */
export function findProblemsPage(documentation: string | undefined): string | undefined {
  if (documentation === undefined) return undefined;
  const url = new URL(documentation);
  url.pathname = url.pathname.replace(/[^/.]*(\.[^/]*)?(\/?)$/, 'accounts$1$2');
  return url.href;
}

/** The body of a problem. @param page the page that explains the codes; undefined if there is none */
export function problemBody(
  { code, message, members }: ApiProblem,
  page: string | undefined,
  requestId: string,
): z.output<typeof problemDocument> {
  const { status, title } = problems[code];
  return {
    // RFC 9457 §4.2.1: the type of a problem that no page explains is `about:blank`.
    type: page === undefined ? 'about:blank' : `${page}#${code}`,
    title,
    status,
    detail: message,
    code,
    request_id: requestId,
    ...(members && { errors: members }),
  };
}
