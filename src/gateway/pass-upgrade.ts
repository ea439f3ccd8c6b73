import type { IncomingMessage } from 'node:http';
import { upstreamHeaders } from './forward.ts';
import { PlainResponse } from './plain-response.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { readResponseHead } from './response-headers.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';

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

/** Sends an admitted WebSocket handshake to the upstream. A response other than 101 goes to the client like any other. */
export function passUpgrade(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
  firstBytes: Buffer,
): Refusal | undefined {
  const { request } = reply;
  const { raw } = request;
  if (!request.reservation.takeSlot()) return new Refusal('overloaded');
  const now = performance.now();
  reply.wait('upstream_timeout', now);
  const headers = upstreamHeaders(request, head, environment, now);
  headers.push(...head.plainHeaders);
  const handshake = { req: raw, socket: raw.socket, firstBytes, target: head.target, headers };
  reply.call = environment.upstream.upgrade(handshake, new PlainResponse(reply), (switched) => {
    reply.upgrade();
    const response = readResponseHead(101, switched).headers;
    reply.addHeaders(response);
    return response;
  });
  return undefined;
}
