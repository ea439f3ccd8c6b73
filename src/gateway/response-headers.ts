import { isOwn } from './header-roles.ts';
import { withoutNominated } from './nominated.ts';

/** What never goes from the upstream to a client: hop-by-hop headers, and what only the sidecar itself may say. */
const neverForwarded = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
]);

/** What describes the bytes of the upstream's body, and is wrong for its envelope; who may keep them, and for how long. */
const ofPlainBody = new Set([
  'content-length',
  'content-type',
  'content-encoding',
  'content-range',
  'etag',
  'digest',
  'content-digest',
  'repr-digest',
  'content-md5',
  'accept-ranges',
  'cache-control',
  'expires',
  'last-modified',
  'age',
  'pragma',
  'surrogate-control',
  'cdn-cache-control',
]);

/** The upstream's head, sorted into what goes to the client and what decides how. */
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

/** Sorts the flat list of headers an upstream has sent. */
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
    const lower = name.toLowerCase();
    if (neverForwarded.has(lower) || isOwn(lower)) {
      if (lower === 'connection') connection = connection === undefined ? value : `${connection},${value}`;
      continue;
    }
    if (!ofPlainBody.has(lower)) {
      headers.push(name, value);
      continue;
    }
    // RFC 9110 §8.6: a 204 has no length, not even 0; a client that believed another would wait for the rest.
    if (status === 204 && lower === 'content-length') continue;
    bodyHeaders.push(name, value);
    if (lower === 'content-length') contentLength = Number(value);
    else if (lower === 'content-type') contentType ??= value;
    else if (lower === 'content-encoding')
      contentEncoding = contentEncoding === undefined ? value : `${contentEncoding}, ${value}`;
  }
  if (connection !== undefined) {
    headers = withoutNominated(headers, connection);
    bodyHeaders = withoutNominated(bodyHeaders, connection);
  }
  return { status, headers, bodyHeaders, contentLength, contentType, contentEncoding };
}
