import type { IncomingMessage } from 'node:http';
import type { Limits } from '../config/config.ts';
import { joined, roleInRequest, withoutNominated } from './header-roles.ts';
import { Refusal } from './refusal.ts';
import { pathOf } from './target.ts';

/** How the length of a body is stated. `none`: no body follows, even if a length of 0 is stated. */
type BodyFraming =
  | { readonly type: 'none'; readonly contentLength: 0 | undefined }
  | { readonly type: 'sized'; readonly contentLength: number }
  | { readonly type: 'chunked'; readonly contentLength: undefined };

const unstatedBody: BodyFraming = { type: 'none', contentLength: undefined };
const emptyBody: BodyFraming = { type: 'none', contentLength: 0 };
const chunkedBody: BodyFraming = { type: 'chunked', contentLength: undefined };

/** The client's address and origin according to earlier proxies. */
export interface ForwardedHeaders {
  for: string | undefined;
  proto: string | undefined;
  host: string | undefined;
  /** Flat list: `Forwarded`, the `X-Forwarded-*` the sidecar does not continue, `X-Real-IP` and the like. */
  others: string[];
}

/** An unambiguous request head, parsed in one pass. */
export class RequestHead {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  readonly path: string;
  /** As received, port included; empty only on HTTP/1.0. */
  host = '';
  authorization: string | undefined;
  /** The client's own request id, if it is acceptable. */
  requestId: string | undefined;
  body: BodyFraming = unstatedBody;
  contentEncoding: string | undefined;
  expectsContinue = false;
  /** All `Connection` headers, joined by commas. */
  connection = '';
  /** The protocol the client asks to change to; never forwarded. */
  upgrade: string | undefined;
  origin: string | undefined;
  requestedMethod: string | undefined;
  requestedCredentials: string | undefined;
  traceparent: string | undefined;
  readonly forwarded: ForwardedHeaders = { for: undefined, proto: undefined, host: undefined, others: [] };
  /** Flat list: end-to-end headers that do not depend on the body. */
  headers: string[] = [];
  /** Flat list: end-to-end headers that are valid for plain traffic only, because they describe the envelope. */
  plainHeaders: string[] = [];

  constructor(method: string, target: string, path: string) {
    this.method = method;
    this.target = target;
    this.path = path;
  }
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

/** @param upgrade the value of the header */
export function asksForWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase() === 'websocket';
}

/**
 * Whether a request may become a WebSocket. Not if it has a body: until the body is complete, Node passes no socket to
 * `upgrade`. Such a request is refused.
 */
export function mayBeUpgraded({ method, headers, httpVersionMinor }: IncomingMessage): boolean {
  if (!asksForWebSocket(headers.upgrade) || method !== 'GET' || httpVersionMinor === 0) return false;
  return headers['transfer-encoding'] === undefined && /^0*$/.test(headers['content-length'] ?? '');
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

  const head = new RequestHead(req.method ?? '', target, path);
  const raw = req.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (!addHeader(head, raw[i] as string, raw[i + 1] as string)) return undefined;
  }
  // RFC 9112 §3.2: HTTP/1.1 requires Host; §6.1: with HTTP/1.0 chunks are faulty framing.
  if (isHttp11 ? head.host === '' : head.body === chunkedBody) return undefined;
  if (!isHttp11) head.expectsContinue = false;
  // RFC 9110 §7.8: if Connection does not nominate it, it was meant for an earlier recipient.
  if (!/upgrade/i.test(head.connection)) head.upgrade = undefined;
  if (head.connection !== '') dropNominated(head);
  return head;
}

/** @returns false if it makes the head ambiguous */
function addHeader(head: RequestHead, name: string, value: string): boolean {
  const { lower, role } = roleInRequest(name);
  switch (role) {
    case 'read':
      return readHeader(head, name, lower, value);
    case 'dropped':
      return true;
    case 'plain':
      head.plainHeaders.push(name, value);
      return true;
    case 'client':
      addForwarded(head.forwarded, name, lower, value);
      return true;
    default:
      head.headers.push(name, value);
      return true;
  }
}

/** Takes a header that the sidecar itself reads. @returns false if it makes the head ambiguous */
function readHeader(head: RequestHead, name: string, lower: string, value: string): boolean {
  switch (lower) {
    case 'host':
      if (head.host !== '' || !acceptableHost.test(value)) return false;
      head.host = value;
      break;
    case 'authorization':
      if (head.authorization !== undefined) return false;
      head.authorization = value;
      break;
    case 'content-length':
      return setBody(head, sizedBody(value));
    case 'transfer-encoding':
      // Readers differ on codings other than chunked.
      return setBody(head, value.toLowerCase() === 'chunked' ? chunkedBody : undefined);
    case 'connection':
      head.connection += head.connection === '' ? value : `,${value}`;
      break;
    case 'expect':
      head.expectsContinue = value.toLowerCase() === '100-continue';
      break;
    case 'upgrade':
      head.upgrade = joined(head.upgrade, value);
      break;
    case 'x-request-id':
      if (acceptableRequestId.test(value)) head.requestId ??= value;
      break;
    case 'content-encoding':
      head.contentEncoding = joined(head.contentEncoding, value);
      head.plainHeaders.push(name, value);
      break;
    case 'origin':
      if (head.origin !== undefined) return false;
      head.origin = value;
      head.headers.push(name, value);
      break;
    case 'access-control-request-method':
      if (head.requestedMethod !== undefined) return false;
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
  return true;
}

function addForwarded(forwarded: ForwardedHeaders, name: string, lower: string, value: string): void {
  if (lower === 'x-forwarded-for') forwarded.for = joined(forwarded.for, value);
  else if (lower === 'x-forwarded-proto') forwarded.proto ??= value;
  else if (lower === 'x-forwarded-host') forwarded.host ??= value;
  else forwarded.others.push(name, value);
}

/** Undefined if the length is not a number that can be counted to; Node's parser has refused signs and lists. */
function sizedBody(value: string): BodyFraming | undefined {
  const contentLength = Number(value);
  if (!Number.isSafeInteger(contentLength)) return undefined;
  return contentLength === 0 ? emptyBody : { type: 'sized', contentLength };
}

/** @returns false if the framing is faulty or stated twice, which Node's parser refuses, too */
function setBody(head: RequestHead, body: BodyFraming | undefined): boolean {
  if (body === undefined || head.body !== unstatedBody) return false;
  head.body = body;
  return true;
}

/** Drops the headers that `Connection` nominates. The sidecar's own are not among them, so no client can drop its identity. */
function dropNominated(head: RequestHead): void {
  const { connection } = head;
  const nominated = connection.toLowerCase();
  if (nominated.includes('origin') || nominated.includes('access-control-request-method')) {
    // A preflight whose headers are dropped would reach the upstream as an ordinary OPTIONS.
    head.origin = undefined;
    head.requestedMethod = undefined;
  }
  head.headers = withoutNominated(head.headers, connection);
  head.plainHeaders = withoutNominated(head.plainHeaders, connection);
  head.forwarded.others = withoutNominated(head.forwarded.others, connection);
}

/** The trace id (W3C Trace Context §3.2) of a well-formed `traceparent`. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent === undefined ? undefined : traceparentForm.exec(traceparent)?.[1];
}
