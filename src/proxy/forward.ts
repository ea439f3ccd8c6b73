import { getKind } from '../accounts/api-key.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import { Refusal } from '../errors.ts';
import type { Admitted } from './admit/exchange.ts';
import { PlainRelay, readResponseHead } from './respond/relay.ts';
import type { Responder } from './respond/responder.ts';
import type { MonotonicMs } from '../times.ts';
import type { UpgradeRequest } from '../upstream/upgrade.ts';

/**
 * Returns the fields of a request to the upstream as a new flat list: the client's end-to-end fields that do not depend on the body, and
 * the sidecar's own fields. Begins the span of the request to the upstream.
 *
 * @param now from `performance.now()`
 */
export function upstreamFields(exchange: Admitted, { client, http, snapshot }: Responder, now: MonotonicMs): string[] {
  const { id, head, environment, principal, trace } = exchange;
  const fields = trace === undefined ? [...head.fields] : traced(head.fields, trace, now);
  if (head.host !== '') fields.push('Host', head.host);
  fields.push('X-Request-Id', id);
  // A preflight has no key, so it has no account.
  if (principal !== undefined) {
    const { account, key } = principal;
    fields.push('X-Account-Id', account.id, 'X-Api-Key-Id', key.id, 'X-Api-Key-Kind', getKind(key.prefix));
    fields.push('X-Environment', environment.name);
    // With a principal, `Authorization` is known to contain a valid API key.
    if (environment.forwardsAuthorization && head.authorization !== undefined)
      fields.push('Authorization', head.authorization);
  }
  const { forwarded } = head;
  const { peer } = client;
  const proto = http.connection.isSecure ? 'https' : 'http';
  // If `X-Forwarded-*` fields come from a trusted proxy, the sidecar keeps and extends them. Otherwise, it replaces them.
  if (snapshot.trusts(peer)) {
    fields.push('X-Forwarded-For', forwarded.for === undefined ? peer : `${forwarded.for}, ${peer}`);
    fields.push('X-Forwarded-Proto', forwarded.proto ?? proto, 'X-Forwarded-Host', forwarded.host ?? head.host);
    fields.push(...forwarded.others);
  } else {
    fields.push('X-Forwarded-For', peer, 'X-Forwarded-Proto', proto, 'X-Forwarded-Host', head.host);
  }
  return fields;
}

/** Puts the sidecar's span between the client's span and the upstream's (W3C Trace Context §3). */
function traced(fields: readonly string[], trace: RequestTrace, now: MonotonicMs): string[] {
  const continued = ['traceparent', trace.forward(now)];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    const lower = name.toLowerCase();
    // A `tracestate` belongs to the trace that it came with, so it is dropped if that trace does not continue.
    if (lower === 'traceparent' || (lower === 'tracestate' && !trace.continues)) continue;
    continued.push(name, fields[i + 1] as string);
  }
  return continued;
}

/**
 * How many bytes a client may send before it gets the 101, although it should wait for the 101 (RFC 6455 §4.1). If a client sends more, the
 * sidecar closes the connection. If the sidecar only stopped reading, it would not notice when the client leaves.
 */
const maxEarlyBytes = 4_096;

/** Sends a WebSocket handshake to the upstream. A response other than 101 is relayed to the client like any other response. */
export function forwardUpgrade(responder: Responder, exchange: Admitted): void {
  const { client, http, reservation, snapshot } = responder;
  const { environment, head } = exchange;
  if (!reservation.takeSlot()) {
    responder.refuse(new Refusal('overloaded'));
    return;
  }
  http.keepAlive = false;
  responder.lasts = true;
  client.maxHeld = maxEarlyBytes;
  const now = performance.now();
  responder.setDeadline('upstream_timeout', now);
  const headers = [...upstreamFields(exchange, responder, now), ...head.plainFields];
  const handshake: UpgradeRequest = {
    socket: http.connection.socket,
    target: head.target,
    headers,
    turnOwner: reservation.claim,
    onSuspend: (resume, reason) => client.onSuspend(resume, reason),
    onCoupled: (suspend) => (client.suspendCoupled = suspend),
  };
  responder.call = environment.upstream.upgrade(handshake, new PlainRelay(responder), (switched) => {
    http.deadline = Infinity;
    responder.upgraded = true;
    const { socket, firstBytes } = http.handOver();
    if (firstBytes.length > 0) socket.unshift(firstBytes);
    socket.setTimeout(snapshot.timeouts.idle, () => responder.abort('timeout'));
    const { fields } = readResponseHead(101, switched);
    fields.push('X-Request-Id', exchange.id);
    return fields;
  });
}
