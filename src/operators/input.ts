import type { z } from 'zod';
import type { IdempotencyKey } from '../accounts/store.ts';
import { DuplicateMember, parseJson } from '../input/json.ts';
import { formatPath } from '../input/member-path.ts';
import { validateWhole } from '../input/validate.ts';
import { ApiProblem, type MemberProblem } from './problems.ts';
import { sha256Hex } from '../cryptography.ts';

type Members = Readonly<Record<string, unknown>>;

/** Maximum number of problems reported for one input. */
const maxReported = 20;

/** Parses the body of a request. @throws ApiProblem `malformed_body` */
export function readBody(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const isDuplicate = error instanceof DuplicateMember;
    throw new ApiProblem('malformed_body', isDuplicate ? 'The body has a duplicate member.' : 'The body is not JSON.');
  }
}

/**
 * Merges the path parameters with the members of the body or of the query, and validates the result against the schema.
 *
 * @throws ApiProblem `invalid_request`, which lists the first mistakes
 */
export function readInput(schema: z.ZodObject, path: Members, sent: unknown): Members {
  const wrong: MemberProblem[] = [];
  if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) {
    wrong.push({ path: formatPath([]), message: 'expected a JSON object' });
  } else {
    for (const name of Object.keys(path))
      if (Object.hasOwn(sent, name)) wrong.push({ path: formatPath([name]), message: 'is already in the path' });
    const checked = validateWhole({ ...sent, ...path }, schema);
    if ('value' in checked) {
      if (wrong.length === 0) return checked.value;
    } else {
      for (const { path: at, message } of checked.mistakes) {
        if (wrong.length === maxReported)
          throw new ApiProblem(
            'invalid_request',
            'The request is invalid: "errors" lists the first 20 problems.',
            wrong,
          );
        wrong.push({ path: formatPath(at), message });
      }
    }
  }
  throw new ApiProblem('invalid_request', 'The request is invalid: "errors" lists every problem.', wrong);
}

/**
 * Turns an `Idempotency-Key` into the key under which a store records the request. If the token is for one account, that key is scoped to
 * the account, because another merchant may choose the same `Idempotency-Key` and must not learn that it is taken.
 *
 * @param own the account of the token; undefined for a token for all accounts
 * @throws ApiProblem `invalid_request`
 */
export function readIdempotencyKey(
  key: unknown,
  operation: string,
  input: Members,
  own: string | undefined,
): IdempotencyKey | undefined {
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !/^[\x21-\x7E]{1,255}$/.test(key)) {
    throw new ApiProblem('invalid_request', 'Idempotency-Key must be 1 to 255 printable ASCII characters.');
  }
  const members = Object.entries(input).toSorted(([a], [b]) => (a < b ? -1 : 1));
  // Neither part contains a space, so the result is unambiguous.
  const scoped = own === undefined ? key : `${own} ${key}`;
  return { key: scoped, request: sha256Hex(JSON.stringify([operation, members])) };
}
