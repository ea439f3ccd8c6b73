import { kindOf } from '../accounts/api-key.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import type { ResponseHandler, UpstreamRequest } from '../upstream/call.ts';
import type { Admitted } from './admitted.ts';
import { peerOf } from './client-address.ts';
import type { EarlyBytes } from './early-bytes.ts';
import { PlainRelay } from './plain-relay.ts';
import { Refusal } from './refusal.ts';
import { readResponseHead } from './response-headers.ts';

/**
 * Sends a request to the upstream. It ends with the upstream's response, a failure, or the client's disconnection.
 *
 * @param bodyHeaders flat list of the headers that depend on the body, without `Content-Length`
 */
export function forward(
  admitted: Admitted,
  bodyHeaders: readonly string[],
  body: UpstreamRequest['body'],
  response: ResponseHandler,
): Refusal | undefined {
  const { reply, head, environment } = admitted;
  const { reservation, stats } = reply.request;
  if (!reservation.takeSlot()) return new Refusal('overloaded');
  const now = performance.now();
  reply.setDeadline('upstream_timeout', now);
  stats.forwardedAt = now;
  const headers = upstreamHeaders(admitted, now);
  headers.push(...bodyHeaders);
  const length = Buffer.isBuffer(body)
    ? body.length
    : body === undefined && head.body.type !== 'none'
      ? 0
      : head.body.contentLength;
  if (length !== undefined) headers.push('Content-Length', String(length));
  reply.call = environment.upstream.send({ method: head.method, target: head.target, headers, body }, response);
  return undefined;
}

/**
 * Sends a WebSocket handshake to the upstream. A response other than 101 goes to the client like any other.
 *
 * @param early released at a 101
 */
export function forwardUpgrade(admitted: Admitted, early: EarlyBytes): Refusal | undefined {
  const { reply, head, environment } = admitted;
  const { raw, reservation } = reply.request;
  if (!reservation.takeSlot()) return new Refusal('overloaded');
  const now = performance.now();
  reply.setDeadline('upstream_timeout', now);
  const headers = upstreamHeaders(admitted, now);
  headers.push(...head.plainHeaders);
  const handshake = { req: raw, target: head.target, headers };
  reply.call = environment.upstream.upgrade(handshake, new PlainRelay(reply), (switched) => {
    reply.upgrade();
    early.release();
    const response = readResponseHead(101, switched).headers;
    reply.addHeaders(response);
    return response;
  });
  return undefined;
}

/**
 * The headers of a request to the upstream, a new flat list: the client's end-to-end headers that do not depend on the body,
 * and the sidecar's own. Begins the span of the request to the upstream.
 *
 * @param now on `performance.now()`'s scale
 */
function upstreamHeaders(admitted: Admitted, now: number): string[] {
  const { head, environment } = admitted;
  const { request } = admitted.reply;
  const headers = request.trace === undefined ? [...head.headers] : traced(head.headers, request.trace, now);
  if (head.host !== '') headers.push('Host', head.host);
  headers.push('X-Request-Id', request.id);
  // A preflight has no identity and no key.
  if (request.holder !== undefined) {
    const { account, key } = request.holder;
    headers.push('X-Account-Id', account.id, 'X-Api-Key-Id', key.id, 'X-Api-Key-Kind', kindOf(key.prefix));
    headers.push('X-Environment', environment.name);
    // It is a valid API key, because there is a holder.
    if (environment.forwardsAuthorization && head.authorization !== undefined)
      headers.push('Authorization', head.authorization);
  }
  pushForwarded(headers, admitted);
  return headers;
}

/** Puts the sidecar's span between the client's and the upstream's (W3C Trace Context §3). */
function traced(headers: readonly string[], trace: RequestTrace, now: number): string[] {
  const continued = ['traceparent', trace.forward(now)];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    const lower = name.toLowerCase();
    // A `tracestate` belongs to the trace that it came with.
    if (lower === 'traceparent' || (lower === 'tracestate' && !trace.continues)) continue;
    continued.push(name, headers[i + 1] as string);
  }
  return continued;
}

/** Continues the `X-Forwarded-*` of a trusted proxy, and replaces those of other peers. */
function pushForwarded(headers: string[], { reply: { request }, head }: Admitted): void {
  const { forwarded } = head;
  const peer = peerOf(request);
  const ownProto = 'encrypted' in request.raw.socket ? 'https' : 'http';
  if (request.rules.trusts(peer)) {
    headers.push('X-Forwarded-For', forwarded.for === undefined ? peer : `${forwarded.for}, ${peer}`);
    headers.push('X-Forwarded-Proto', forwarded.proto ?? ownProto, 'X-Forwarded-Host', forwarded.host ?? head.host);
    headers.push(...forwarded.others);
  } else {
    headers.push('X-Forwarded-For', peer, 'X-Forwarded-Proto', ownProto, 'X-Forwarded-Host', head.host);
  }
}
