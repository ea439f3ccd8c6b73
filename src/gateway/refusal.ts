import type { Socket } from 'node:net';
import { refusalOf, type RefusalCode } from '../errors.ts';
import { endUnparsed } from '../http.ts';

/** Details of a refusal that depend on the request. */
interface RefusalDetails {
  /** For `Allow`, with `method_not_allowed`. */
  readonly allow?: string;
  /** For `Retry-After`, in seconds; overrides the row's. */
  readonly retryAfter?: number;
  /** A further explanation for the caller, in the test environment only. */
  readonly hint?: string | undefined;
}

/** Why a request is refused. Steps return it to the gateway, which sends it; the reply makes its own on timeouts and failures. */
export class Refusal {
  readonly code: RefusalCode;
  readonly details: RefusalDetails;

  constructor(code: RefusalCode, details: RefusalDetails = {}) {
    this.code = code;
    this.details = details;
  }
}

/**
 * The body of a refusal (RFC 9457).
 *
 * @param errorsPage the address of the page that explains the codes, for `type`
 */
export function problem(code: RefusalCode, requestId: string, errorsPage: string, hint?: string): string {
  const { status, title, detail } = refusalOf(code);
  const type = `${errorsPage}#${code}`;
  return JSON.stringify({ type, title, status, detail, code, request_id: requestId, hint });
}

/** A new flat list of the headers of a refusal that do not depend on whether it is sealed. */
export function refusalHeaders(code: RefusalCode, details: RefusalDetails, allowsCors: boolean): string[] {
  const row = refusalOf(code);
  const headers = ['Cache-Control', 'no-store'];
  if (row.status === 401) headers.push('WWW-Authenticate', 'Bearer');
  const retryAfter = details.retryAfter ?? row.retryAfter;
  if (retryAfter !== undefined) headers.push('Retry-After', String(retryAfter));
  if (details.allow !== undefined) headers.push('Allow', details.allow);
  if (allowsCors) headers.push('Access-Control-Allow-Origin', '*');
  return headers;
}

/** Refuses on a connection on which Node's parser gave up, and closes it: there is no response object to write to. */
export function endWithProblem(socket: Socket, code: RefusalCode, requestId: string, errorsPage: string): void {
  endUnparsed(socket, { ...refusalOf(code), body: problem(code, requestId, errorsPage), requestId });
}
