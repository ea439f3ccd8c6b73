import type { IncomingMessage } from 'node:http';
import type { Limits } from '../config/config.ts';
import { requestRole, withoutNominated } from './header-roles.ts';
import { Refusal } from './refusal.ts';
import { pathOf } from './target.ts';

/** An unambiguous request head, parsed in one pass. */
export interface RequestHead {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  readonly path: string;
  /** As received, port included; empty only on HTTP/1.0. */
  host: string;
  authorization: string | undefined;
  /** The client's own request id, if it is acceptable. */
  requestId: string | undefined;
  body: BodyFraming;
  contentEncoding: string | undefined;
  expectsContinue: boolean;
  /** The protocol the client asks to change to; never forwarded. */
  upgrade: string | undefined;
  origin: string | undefined;
  requestedMethod: string | undefined;
  requestedCredentials: string | undefined;
  traceparent: string | undefined;
  readonly forwarded: ForwardedHeaders;
  /** Flat list: end-to-end headers that do not depend on the body. */
  headers: string[];
  /** Flat list: end-to-end headers that hold for plain traffic only, because an envelope makes them wrong. */
  plainHeaders: string[];
}

/** How the length of a body is stated. `none`: no body follows, even if a length of 0 is stated. */
export type BodyFraming =
  | { readonly kind: 'none'; readonly contentLength: 0 | undefined }
  | { readonly kind: 'sized'; readonly contentLength: number }
  | { readonly kind: 'chunked'; readonly contentLength: undefined };

const unstatedBody: BodyFraming = { kind: 'none', contentLength: undefined };
const emptyBody: BodyFraming = { kind: 'none', contentLength: 0 };
const chunkedBody: BodyFraming = { kind: 'chunked', contentLength: undefined };

/** The client's address and origin according to earlier proxies. */
export interface ForwardedHeaders {
  for: string | undefined;
  proto: string | undefined;
  host: string | undefined;
  /** Flat list: `Forwarded`, the `X-Forwarded-*` the sidecar does not continue, `X-Real-IP` and the like. */
  others: string[];
}

const acceptableRequestId = /^[A-Za-z0-9._-]{1,128}$/;
const acceptableHost = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/;
const traceparentForm = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** Bytes of a request's head as sent, separators and line ends included: Node counts names and values only. */
export function headSize({ method = '', url = '', rawHeaders }: IncomingMessage): number {
  // `METHOD target HTTP/1.1`, then `name: value` lines, then an empty one.
  let size = method.length + 1 + url.length + 1 + 'HTTP/1.1'.length + 2 + 2;
  for (const part of rawHeaders) size += part.length + 2;
  return size;
}

/** The stated length in bytes of the body of a request that has not been read; infinite if none is stated. */
export function statedLength({ headers }: IncomingMessage): number {
  return headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Infinity;
}

/** Reads a request's head; refuses one that is too large, or that the sidecar and the upstream could read differently. */
export function readRequestHead(req: IncomingMessage, { header, headers }: Limits): RequestHead | Refusal {
  if (req.rawHeaders.length > 2 * headers || headSize(req) > header) return new Refusal('headers_too_large');
  return unambiguousHead(req) ?? new Refusal('ambiguous_request');
}

/** Undefined if the head can be read in two ways (RFC 9112 §3.2, §6.1, §11). */
function unambiguousHead(req: IncomingMessage): RequestHead | undefined {
  const target = req.url ?? '';
  const path = pathOf(target);
  const isHttp11 = req.httpVersionMinor === 1;
  if (path === undefined || req.httpVersionMajor !== 1 || (req.httpVersionMinor !== 0 && !isHttp11)) return undefined;

  const head: RequestHead = {
    method: req.method ?? '',
    target,
    path,
    host: '',
    authorization: undefined,
    requestId: undefined,
    body: unstatedBody,
    contentEncoding: undefined,
    expectsContinue: false,
    upgrade: undefined,
    origin: undefined,
    requestedMethod: undefined,
    requestedCredentials: undefined,
    traceparent: undefined,
    forwarded: { for: undefined, proto: undefined, host: undefined, others: [] },
    headers: [],
    plainHeaders: [],
  };
  let hosts = 0;
  let contentLength: number | undefined;
  let connection = '';
  const raw = req.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    const lower = name.toLowerCase();
    const role = requestRole(lower);
    if (role === undefined) {
      if (lower.startsWith('x-forwarded-')) head.forwarded.others.push(name, value);
      else head.headers.push(name, value);
      continue;
    }
    if (role === 'dropped') continue;
    if (role === 'plain') {
      head.plainHeaders.push(name, value);
      continue;
    }
    if (role === 'client') {
      head.forwarded.others.push(name, value);
      continue;
    }
    switch (lower) {
      case 'host':
        hosts++;
        head.host = value;
        break;
      case 'authorization':
        if (head.authorization !== undefined) return undefined;
        head.authorization = value;
        break;
      case 'content-length':
        // Node's parser has refused signs, lists and a second one.
        contentLength = Number(value);
        if (!Number.isSafeInteger(contentLength)) return undefined;
        break;
      case 'transfer-encoding':
        // RFC 9112 §6.1: with HTTP/1.0 the framing is faulty; readers differ on codings other than chunked. Node's parser refuses
        // a second one.
        if (head.body !== unstatedBody || !isHttp11 || value.toLowerCase() !== 'chunked') return undefined;
        head.body = chunkedBody;
        break;
      case 'connection':
        connection += connection === '' ? value : `,${value}`;
        break;
      case 'expect':
        head.expectsContinue = isHttp11 && value.toLowerCase() === '100-continue';
        break;
      case 'upgrade':
        head.upgrade = head.upgrade === undefined ? value : `${head.upgrade}, ${value}`;
        break;
      case 'x-request-id':
        if (acceptableRequestId.test(value)) head.requestId ??= value;
        break;
      case 'x-forwarded-for':
        head.forwarded.for = head.forwarded.for === undefined ? value : `${head.forwarded.for}, ${value}`;
        break;
      case 'x-forwarded-proto':
        head.forwarded.proto ??= value;
        break;
      case 'x-forwarded-host':
        head.forwarded.host ??= value;
        break;
      case 'forwarded':
        head.forwarded.others.push(name, value);
        break;
      case 'content-type':
        head.plainHeaders.push(name, value);
        break;
      case 'content-encoding':
        head.contentEncoding = head.contentEncoding === undefined ? value : `${head.contentEncoding}, ${value}`;
        head.plainHeaders.push(name, value);
        break;
      case 'origin':
        if (head.origin !== undefined) return undefined;
        head.origin = value;
        head.headers.push(name, value);
        break;
      case 'access-control-request-method':
        if (head.requestedMethod !== undefined) return undefined;
        head.requestedMethod = value;
        head.headers.push(name, value);
        break;
      case 'envelope-credentials':
        head.requestedCredentials = value;
        break;
      case 'traceparent':
        head.traceparent = value;
        head.headers.push(name, value);
        break;
      default:
    }
  }
  if (hosts > 1 || (hosts === 0 && isHttp11) || (hosts === 1 && !acceptableHost.test(head.host))) return undefined;
  if (contentLength !== undefined) {
    // Node's parser refuses two framings, too.
    if (head.body !== unstatedBody) return undefined;
    head.body = contentLength === 0 ? emptyBody : { kind: 'sized', contentLength };
  }
  // RFC 9110 §7.8: if Connection does not nominate it, it was meant for an earlier recipient.
  if (!/upgrade/i.test(connection)) head.upgrade = undefined;
  if (connection !== '') {
    // A preflight whose headers are dropped here would reach the upstream as an ordinary OPTIONS.
    const nominated = connection.toLowerCase();
    if (nominated.includes('origin') || nominated.includes('access-control-request-method')) {
      head.origin = undefined;
      head.requestedMethod = undefined;
    }
    // The sidecar's own headers are not among these, so a client cannot nominate its identity headers away.
    head.headers = withoutNominated(head.headers, connection);
    head.plainHeaders = withoutNominated(head.plainHeaders, connection);
    head.forwarded.others = withoutNominated(head.forwarded.others, connection);
  }
  return head;
}

/** The trace id (W3C Trace Context §3.2) of a well-formed `traceparent`. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent === undefined ? undefined : traceparentForm.exec(traceparent)?.[1];
}
