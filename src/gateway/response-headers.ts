import { joined, roleInResponse, withoutNominated } from './header-roles.ts';

/** The head of an upstream's response. */
export interface ResponseHead {
  readonly status: number;
  /** Flat list of end-to-end headers, without those that describe the body. */
  readonly headers: string[];
  /** Flat list of those that do, `Content-Length` among them. */
  readonly bodyHeaders: string[];
  readonly contentLength: number | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

/** Sorts the flat list of headers of an upstream. */
export function readResponseHead(status: number, raw: readonly string[]): ResponseHead {
  let headers: string[] = [];
  let bodyHeaders: string[] = [];
  let contentLength: number | undefined;
  let contentType: string | undefined;
  let contentEncoding: string | undefined;
  let connection: string | undefined;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    const { lower, role } = roleInResponse(name);
    if (role === 'dropped') {
      if (lower === 'connection') connection = joined(connection, value);
      continue;
    }
    if (role === undefined) {
      headers.push(name, value);
      continue;
    }
    // RFC 9110 §8.6: a 204 has no length, not even 0. With a length, a client might wait for a body.
    if (status === 204 && lower === 'content-length') continue;
    bodyHeaders.push(name, value);
    if (lower === 'content-length') contentLength = Number(value);
    else if (lower === 'content-type') contentType ??= value;
    else if (lower === 'content-encoding') contentEncoding = joined(contentEncoding, value);
  }
  if (connection !== undefined) {
    headers = withoutNominated(headers, connection);
    bodyHeaders = withoutNominated(bodyHeaders, connection);
  }
  return { status, headers, bodyHeaders, contentLength, contentType, contentEncoding };
}
