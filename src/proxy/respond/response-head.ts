import { joined, nominatedBy, roleInResponse, without } from '../admit/fields.ts';

/** The head of an upstream's response. */
export interface ResponseHead {
  readonly status: number;
  /** Flat list of end-to-end fields, without those that describe the body. */
  readonly fields: string[];
  /** Flat list of those that do, `Content-Length` among them. */
  readonly bodyFields: string[];
  readonly contentLength: number | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

/** Sorts the flat list of fields of an upstream's response. */
export function readResponseHead(status: number, raw: readonly string[]): ResponseHead {
  let fields: string[] = [];
  let bodyFields: string[] = [];
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
      fields.push(name, value);
      continue;
    }
    // RFC 9110 §8.6: a 204 has no length, not even 0. With a length, a client might wait for a body.
    if (status === 204 && lower === 'content-length') continue;
    bodyFields.push(name, value);
    if (lower === 'content-length') contentLength = Number(value);
    else if (lower === 'content-type') contentType ??= value;
    else if (lower === 'content-encoding') contentEncoding = joined(contentEncoding, value);
  }
  if (connection !== undefined) {
    const names = nominatedBy(connection);
    fields = without(names, fields);
    bodyFields = without(names, bodyFields);
  }
  return { status, fields, bodyFields, contentLength, contentType, contentEncoding };
}
