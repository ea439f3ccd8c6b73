import { AccountsError, type AccountsErrorCode } from '../accounts/accounts-error.ts';
import type { OperatorsToken } from '../config/config.ts';
import { ApiProblem } from './problems.ts';

/** Maximum length of a body in bytes. Only `seal` needs more. */
export const bodyLimit = 16_384;

/** Errors that concern the whole store. Their messages may name files, other accounts and variables. */
const ofStore: ReadonlySet<AccountsErrorCode> = new Set([
  'store_changed',
  'store_invalid',
  'store_locked',
  'store_read_only',
  'store_unavailable',
  'disk_full',
  'audit_key_missing',
  'master_key_missing',
  'master_key_wrong',
  'kms_refused',
  'kms_unavailable',
]);

/**
 * Converts an error to the problem that an operator gets.
 *
 * @param token the token of the request. A token of one account must not learn anything about other accounts
 */
export function toProblem(error: unknown, token: OperatorsToken | undefined): ApiProblem {
  if (error instanceof ApiProblem) return error;
  if (error instanceof AccountsError && token?.account !== undefined && ofStore.has(error.code))
    return new ApiProblem(error.code, 'The operators of the sidecar can see the cause by running "sidecar check".');
  if (error instanceof AccountsError) return new ApiProblem(error.code, sentence(error.message));
  const { code = '', statusCode = 500 } = error as { code?: string; statusCode?: number };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new ApiProblem('body_too_large', `A body may have at most ${bodyLimit} bytes.`);
  }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new ApiProblem('unsupported_media_type', 'Send the body as application/json.');
  }
  if (statusCode < 500) return new ApiProblem('malformed_body', 'The request or its body cannot be read.');
  return new ApiProblem('internal_error', 'The log has the cause, under the id of this request.');
}

/** Turns a message into a sentence. Its first word is capitalized unless it is a path or an id. */
function sentence(text: string): string {
  return `${text.replace(/^[a-z]+ /, (word) => word.charAt(0).toUpperCase() + word.slice(1))}.`;
}
