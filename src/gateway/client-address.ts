import { isIPv6 } from 'node:net';
import type { GatewayRequest } from './gateway-request.ts';
import type { RequestHead } from './request-head.ts';

/** The address at the other end of the connection. */
export function peerOf({ req }: GatewayRequest): string {
  // An IPv4 peer of a dual-stack listener shows as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
  return req.socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/, '') ?? '';
}

/**
 * The client's address as a subject of limits: behind trusted proxies the last one they did not put there themselves;
 * an IPv6 network of 64 bits as one, because that is what one client is given.
 *
 * @returns undefined behind a proxy that is not trusted: all its clients would count as one
 */
export function clientOf(request: GatewayRequest, head: RequestHead): string | undefined {
  const peer = peerOf(request);
  const { forwarded } = head;
  if (!request.rules.trusts(peer)) {
    return forwarded.for === undefined && forwarded.others.length === 0 ? subject(peer) : undefined;
  }
  const hops = forwarded.for?.split(',').map((hop) => hop.trim()) ?? [];
  return subject(hops.findLast((hop) => !request.rules.trusts(hop)) ?? peer);
}

function subject(address: string): string {
  if (!isIPv6(address)) return address;
  const [before = '', after] = address.replace(/%.*$/, '').split('::');
  const groups = before === '' ? [] : before.split(':');
  const last = after === undefined || after === '' ? [] : after.split(':');
  const whole = [...groups, ...Array<string>(Math.max(0, 8 - groups.length - last.length)).fill('0'), ...last];
  return `${whole
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}
