import { isIPv4, isIPv6, SocketAddress } from 'node:net';
import type { GatewaySnapshot } from './snapshot.ts';

/** An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2): a dual-stack listener sees IPv4 peers like this. */
const mappedIPv4 = /^::ffff:([\d.]+)$/;

/** The usual spelling of the address at the other end of a connection. */
export function peerAddress(remoteAddress: string): string {
  return remoteAddress.startsWith('::') ? remoteAddress.replace(mappedIPv4, '$1') : remoteAddress;
}

/**
 * The client's address for limits: the peer or, behind trusted proxies, the last hop that is not one. All addresses of
 * an IPv6 /64 count as one, because a client usually gets a whole /64.
 *
 * @param forwardedFor the value of `X-Forwarded-For`
 */
export function clientAddress(peer: string, forwardedFor: string | undefined, snapshot: GatewaySnapshot): string {
  if (!snapshot.trusts(peer)) return subject(peer) ?? '';
  const hops = forwardedFor?.split(',').map(withoutPort) ?? [];
  const hop = hops.findLast((each) => !snapshot.trusts(each));
  return subject(hop ?? peer) ?? subject(peer) ?? '';
}

/** A hop without its port; some proxies add it, with an IPv6 address in brackets. */
function withoutPort(hop: string): string {
  const text = hop.trim();
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}

/** The canonical spelling of an address, or of an IPv6 address's /64; undefined if it is not an address. */
function subject(address: string): string | undefined {
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  // In lower case, compressed, without a zone.
  const canonical = new SocketAddress({ address, family: 'ipv6' }).address;
  const mapped = mappedIPv4.exec(canonical)?.[1];
  if (mapped !== undefined) return mapped;
  const [before = [], after = []] = canonical
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after];
  return `${groups.slice(0, 4).join(':')}::/64`;
}
