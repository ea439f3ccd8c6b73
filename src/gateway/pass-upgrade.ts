import type { IncomingMessage } from 'node:http';
import { PlainResponse } from './plain-response.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import { readResponseHead } from './response-headers.ts';
import type { RequestHead } from './request-head.ts';
import type { ServedEnvironment } from './rules.ts';
import { upstreamHeaders } from './upstream-headers.ts';

/** @param upgrade the value of the header */
export function asksForWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase() === 'websocket';
}

/**
 * Whether a request may become a WebSocket. Not if it has a body: Node gives up its own hold on the connection only when
 * the body is complete, and until then what it hands to `upgrade` is no socket. Such a request is to be refused.
 */
export function mayBeUpgraded({ method, headers, httpVersionMinor }: IncomingMessage): boolean {
  if (!asksForWebSocket(headers.upgrade) || method !== 'GET' || httpVersionMinor === 0) return false;
  return headers['transfer-encoding'] === undefined && /^0*$/.test(headers['content-length'] ?? '');
}

/** Hands an admitted WebSocket handshake to the upstream. A response other than 101 goes to the client like any other. */
export function passUpgrade(
  reply: Reply,
  head: RequestHead,
  environment: ServedEnvironment,
  firstBytes: Buffer,
): Refusal | undefined {
  const { request } = reply;
  if (!request.reservation.takeSlot()) return new Refusal('overloaded');
  reply.wait('upstream_timeout');
  const headers = [...upstreamHeaders(request, head, environment), ...head.plainHeaders];
  const handshake = { req: request.raw, socket: request.raw.socket, firstBytes, target: head.target, headers };
  const relay = new PlainResponse(reply);
  const abort = environment.upstream.upgrade(handshake, {
    onSwitch: (raw) => {
      reply.upgrade();
      return [...reply.headers(), ...readResponseHead(101, raw).headers];
    },
    onResponse: (status, responseHeaders, response) => {
      reply.call = {
        abort: () => response.destroy(),
        pause: () => response.pause(),
        resume: () => response.resume(),
      };
      relay.onHead(status, responseHeaders);
      response.on('data', (chunk: Buffer) => relay.onData(chunk));
      response.on('end', () => relay.onEnd());
      response.on('error', () => relay.onFailure({ code: 'upstream_unavailable', cause: 'ECONNRESET' }));
    },
    onFailure: (failure) => relay.onFailure(failure),
  });
  reply.call = { abort, pause: () => {}, resume: () => {} };
  return undefined;
}
