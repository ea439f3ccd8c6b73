import { findRefusal, type Refusal, type RefusalCode } from '../../errors.ts';
import type { RequestFault } from '../../http1/parse/request-reader.ts';

/** The refusal code for each request fault. */
export const refusalCodes: Readonly<Record<RequestFault, RefusalCode>> = {
  malformed: 'malformed_request',
  ambiguous: 'ambiguous_request',
  too_large: 'headers_too_large',
  timeout: 'request_timeout',
};

/** The facts that a problem document contains in addition to the refusal. */
interface Occurrence {
  readonly requestId: string;
  /** The address of the page that explains the codes, for the member `type`; undefined if there is none. */
  readonly errorsPage: string | undefined;
  /** Whether any part of the request may have been sent to the upstream. */
  readonly mayBeForwarded?: boolean;
  /** Whether the request has the path of a test endpoint, but its environment does not serve the test endpoints. */
  readonly testElsewhere?: boolean;
}

const elsewhere = 'The endpoints aes-encrypt and aes-decrypt exist only in the test environment.';

/** The body of a refusal (RFC 9457), in UTF-8. */
export function problemDocument({ code, details }: Refusal, occurrence: Occurrence): Buffer {
  const { status, title, detail, forwarded } = findRefusal(code);
  return Buffer.from(
    JSON.stringify({
      // RFC 9457 §4.2.1: without a page, a problem has the type `about:blank`.
      type: occurrence.errorsPage === undefined ? 'about:blank' : `${occurrence.errorsPage}#${code}`,
      title,
      status,
      detail: status === 401 && occurrence.testElsewhere === true ? `${detail} ${elsewhere}` : detail,
      code,
      request_id: occurrence.requestId,
      forwarded: forwarded ?? (occurrence.mayBeForwarded === true ? 'maybe' : 'no'),
      hint: details.hint,
    }),
  );
}

/** The fields of a refusal that a browser shows to a script only if the response lists their names (Fetch §3.3.3). */
const exposed = 'Retry-After, X-Request-Id, Envelope';

/** Returns a new flat list of a refusal's fields, except those that depend on whether the refusal is sealed. */
export function refusalFields({ code, details }: Refusal, allowsCors: boolean): string[] {
  const row = findRefusal(code);
  const fields = ['Cache-Control', 'no-store'];
  if (row.status === 401) fields.push('WWW-Authenticate', 'Bearer');
  const retryAfter = details.retryAfter ?? row.retryAfter;
  if (retryAfter !== undefined) fields.push('Retry-After', String(retryAfter));
  if (details.allow !== undefined) fields.push('Allow', details.allow);
  if (allowsCors) fields.push('Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', exposed);
  return fields;
}
