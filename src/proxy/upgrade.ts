import type { Admitted } from './admit/exchange.ts';
import { Refusal } from '../errors.ts';
import { upstreamFields } from './forward.ts';
import { PlainRelay } from './respond/relay.ts';
import { readResponseHead } from './respond/response-head.ts';
import type { Responder } from './respond/responder.ts';

/**
 * Bytes that a client may send before the 101, which it must wait for (RFC 6455 §4.1). Beyond, its connection is closed: if it
 * were not read any more, a client that left would go unnoticed.
 */
const maxEarlyBytes = 4_096;

/** Sends a WebSocket handshake to the upstream. A response other than 101 goes to the client like any other. */
export function forwardUpgrade(responder: Responder, exchange: Admitted): void {
  const { client, http, reservation, snapshot } = responder;
  const { environment, head } = exchange;
  if (!reservation.takeSlot()) {
    responder.refuse(new Refusal('overloaded'));
    return;
  }
  http.keepAlive = false;
  client.maxHeld = maxEarlyBytes;
  const now = performance.now();
  responder.setDeadline('upstream_timeout', now);
  const headers = [...upstreamFields(exchange, responder, now), ...head.plainFields];
  const handshake = { socket: http.connection.socket, target: head.target, headers };
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
