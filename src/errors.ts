/**
 * The refusals: one row for each error response that the sidecar itself sends to merchants. A test compares the rows with docs/errors.md.
 * This file imports nothing, so that any part of the sidecar may name a code.
 */

interface RefusalRow {
  /** HTTP status of the response. */
  readonly status: number;
  /** RFC 9457 `title`: the same for every occurrence. */
  readonly title: string;
  /** RFC 9457 `detail`: how the caller can correct the request. Never contains data from a request. */
  readonly detail: string;
  /**
   * Whether the response is sealed if the account encrypts and the route is enveloped. A refusal that the account's credentials may have
   * caused is not sealed.
   */
  readonly sealed?: true;
  /** Whether the connection is closed, because further bytes are unwanted or may belong to the refused request. */
  readonly closes?: true;
  /** Seconds for `Retry-After`; only on temporary refusals. */
  readonly retryAfter?: number;
  /** `maybe` if the upstream may have seen the whole request. If undefined, the upstream cannot have seen the whole request. */
  readonly forwarded?: 'maybe';
}

export const refusals = {
  missing_api_key: {
    status: 401,
    title: 'API key missing',
    detail: 'Send your API key as "Authorization: Bearer <API key>".',
  },
  malformed_api_key: {
    status: 401,
    title: 'API key malformed',
    detail:
      'The Authorization header must be "Bearer" followed by an API key that begins with pk_test_, pk_live_, sk_test_ or sk_live_.',
  },
  invalid_api_key: {
    status: 401,
    title: 'API key invalid',
    detail: 'The API key is unknown, expired or revoked.',
  },
  environment_mismatch: {
    status: 403,
    title: 'Wrong environment',
    detail: 'The API key belongs to the other environment: test keys and live keys have endpoints of their own.',
  },
  key_not_permitted: {
    status: 403,
    title: 'API key not permitted',
    detail: 'A public API key may not use this endpoint. Call it from your server with a secret key.',
    sealed: true,
  },
  account_inactive: {
    status: 403,
    title: 'Account inactive',
    detail: 'The account of this API key is not active.',
    sealed: true,
  },
  method_not_allowed: {
    status: 405,
    title: 'Method not allowed',
    detail: 'The endpoint does not support this method. The Allow header lists the methods that it supports.',
    sealed: true,
  },
  envelope_required: {
    status: 400,
    title: 'Envelope required',
    detail: 'Encryption is enabled for this account: send {"data":"<ciphertext>"}.',
  },
  envelope_malformed: {
    status: 400,
    title: 'Envelope malformed',
    detail: 'The body must be a JSON object with exactly one member, "data", a string.',
  },
  decryption_failed: {
    status: 400,
    title: 'Decryption failed',
    detail: 'The envelope could not be opened with the credentials of this account.',
  },
  encryption_not_supported: {
    status: 400,
    title: 'Encryption not supported',
    detail: 'This endpoint does not accept envelopes. Send plain JSON.',
  },
  unsupported_content_encoding: {
    status: 415,
    title: 'Content encoding not supported',
    detail: 'Send the body without Content-Encoding.',
    sealed: true,
  },
  body_too_large: {
    status: 413,
    title: 'Body too large',
    detail: 'The body of the request is larger than this endpoint accepts.',
    sealed: true,
    closes: true,
  },
  ambiguous_request: {
    status: 400,
    title: 'Ambiguous request',
    detail:
      'The request line or a header can be read in more than one way. Send a plain path, one Host, one Authorization and a definite length.',
    closes: true,
  },
  malformed_request: {
    status: 400,
    title: 'Malformed request',
    detail: 'The request is not valid HTTP/1.1.',
    closes: true,
  },
  invalid_cipher_test: {
    status: 400,
    title: 'Cipher test invalid',
    detail:
      'Send a 32-byte "key" header, an "iv" header whose first 16 characters are 16 bytes, and the JSON body the endpoint asks for.',
  },
  request_timeout: {
    status: 408,
    title: 'Request timeout',
    detail: 'The request did not arrive in time.',
    closes: true,
  },
  unknown_host: {
    status: 421,
    title: 'Unknown host',
    detail: 'No environment is served under this host name.',
  },
  headers_too_large: {
    status: 431,
    title: 'Headers too large',
    detail: 'The head of the request is larger than this endpoint accepts.',
    closes: true,
  },
  too_many_attempts: {
    status: 429,
    title: 'Too many failed attempts',
    detail: 'Too many requests with a wrong API key or an envelope that does not open. Try again later.',
    retryAfter: 60,
  },
  overloaded: {
    status: 503,
    title: 'Overloaded',
    detail: 'Too many requests are in flight. Try again shortly.',
    retryAfter: 1,
  },
  accounts_unavailable: {
    status: 503,
    title: 'Accounts unavailable',
    detail: 'The API key cannot be checked at the moment. Try again shortly.',
    retryAfter: 5,
  },
  upstream_unavailable: {
    status: 502,
    title: 'Upstream unavailable',
    detail: 'The payment core did not return a usable response. Whether it acted on the request is not known.',
    sealed: true,
    forwarded: 'maybe',
  },
  upstream_timeout: {
    status: 504,
    title: 'Upstream timeout',
    detail: 'The payment core did not respond in time. Whether it acted on the request is not known.',
    sealed: true,
    forwarded: 'maybe',
  },
  sealing_failed: {
    status: 502,
    title: 'Sealing failed',
    detail: 'The response of the payment core could not be sealed, so it is withheld.',
    forwarded: 'maybe',
  },
  internal_error: {
    status: 500,
    title: 'Internal error',
    detail: 'The request failed for a reason inside the gateway.',
    sealed: true,
    forwarded: 'maybe',
  },
} as const satisfies Record<string, RefusalRow>;

/** The code of a refusal, as it appears in the response, the metrics and the log. */
export type RefusalCode = keyof typeof refusals;

/** The reasons why a key is invalid or an envelope is not opened. docs/operators/monitor.md lists them all. */
export const refusalReasons = {
  invalid_api_key: ['unknown', 'revoked', 'expired'],
  decryption_failed: ['encoding', 'length', 'padding', 'not_json', 'fingerprint'],
} as const;

export type RefusalReason = (typeof refusalReasons)[keyof typeof refusalReasons][number];

/** The details of one refusal, in addition to the row for its code. */
export interface RefusalDetails {
  /** The value of `Allow`, for `method_not_allowed`. */
  readonly allow?: string;
  /** Seconds for `Retry-After`, instead of the value in the row. */
  readonly retryAfter?: number | undefined;
  /** A further explanation for the caller, in the test environment only. */
  readonly hint?: string | undefined;
  /** The cause, for the log and the metrics. It is never sent. */
  readonly reason?: RefusalReason | undefined;
}

/** Why a request is refused. The steps that process a request return refusals; only the responder sends them. */
export class Refusal {
  readonly code: RefusalCode;
  readonly details: RefusalDetails;

  constructor(code: RefusalCode, details: RefusalDetails = {}) {
    this.code = code;
    this.details = details;
  }
}

/** The row for a code, widened so that optional members can be read on any row. */
export function findRefusal(code: RefusalCode): RefusalRow {
  return refusals[code];
}
