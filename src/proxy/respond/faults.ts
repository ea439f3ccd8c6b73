import type { RefusalCode } from '../../errors.ts';
import type { RequestFault } from '../../http1/request-reader.ts';

/** The refusal of bytes that are not a request. */
export const refusalCodes: Readonly<Record<RequestFault, RefusalCode>> = {
  malformed: 'malformed_request',
  ambiguous: 'ambiguous_request',
  too_large: 'headers_too_large',
  timeout: 'request_timeout',
};
