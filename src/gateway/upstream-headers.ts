import { kindOf } from '../accounts/api-key.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import { peerOf } from './client-address.ts';
import type { RequestHead } from './request-head.ts';
import type { RequestFacts } from './request.ts';
import type { ServedEnvironment } from './rules.ts';

/**
 * The headers of a request to the upstream: the client's end-to-end headers that hold in any case, and what the sidecar
 * says itself. A flat list, to be continued by what depends on the body.
 */
export function upstreamHeaders(request: RequestFacts, head: RequestHead, environment: ServedEnvironment): string[] {
  const headers = request.trace === undefined ? [...head.headers] : traced(head.headers, request.trace);
  if (head.host !== '') headers.push('Host', head.host);
  headers.push('X-Request-Id', request.id);
  // A preflight has no identity and no key.
  if (request.holder !== undefined) {
    const { account, key } = request.holder;
    headers.push('X-Account-Id', account.id, 'X-Api-Key-Id', key.id, 'X-Api-Key-Kind', kindOf(key.prefix));
    headers.push('X-Environment', environment.name);
    // It is a key: with anything else there is no holder.
    if (environment.forwardsAuthorization && head.authorization !== undefined)
      headers.push('Authorization', head.authorization);
  }
  pushForwarded(headers, request, head);
  return headers;
}

/** Puts the sidecar's span between the client's and the upstream's (W3C Trace Context §3). */
function traced(headers: readonly string[], trace: RequestTrace): string[] {
  const kept = ['traceparent', trace.forward(performance.now())];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    const lower = name.toLowerCase();
    // A `tracestate` belongs to the trace that it came with.
    if (lower === 'traceparent' || (lower === 'tracestate' && !trace.continues)) continue;
    kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

/** Continues `X-Forwarded-*` from a trusted proxy; from anybody else what they say of themselves is replaced. */
function pushForwarded(headers: string[], request: RequestFacts, head: RequestHead): void {
  const { socket } = request.raw;
  const peer = peerOf(request);
  const ownProto = 'encrypted' in socket ? 'https' : 'http';
  const { forwarded } = head;
  if (request.rules.trusts(peer)) {
    headers.push('X-Forwarded-For', forwarded.for === undefined ? peer : `${forwarded.for}, ${peer}`);
    headers.push('X-Forwarded-Proto', forwarded.proto ?? ownProto, 'X-Forwarded-Host', forwarded.host ?? head.host);
    headers.push(...forwarded.others);
  } else {
    headers.push('X-Forwarded-For', peer, 'X-Forwarded-Proto', ownProto, 'X-Forwarded-Host', head.host);
  }
}
