import { isIPv4, isIPv6, SocketAddress } from 'node:net';
import type { RequestFacts } from './request.ts';

/** An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2): a dual-stack listener sees IPv4 peers like this. */
const mappedIPv4 = /^::ffff:([\d.]+)$/;

/** The address at the other end of the connection. */
export function peerOf({ raw }: Pick<RequestFacts, 'raw'>): string {
  const address = raw.socket.remoteAddress ?? '';
  return address.startsWith('::') ? address.replace(mappedIPv4, '$1') : address;
}

/**
 * The client's address for limits: the peer or, behind trusted proxies, the last hop that is not one. All addresses of
 * an IPv6 /64 count as one, because a client usually gets a whole /64.
 */
export function clientOf({ raw, rules, head }: Pick<RequestFacts, 'raw' | 'rules' | 'head'>): string {
  const peer = peerOf({ raw });
  if (!rules.trusts(peer)) return subject(peer) ?? '';
  const hops = head?.forwarded.for?.split(',').map(withoutPort) ?? [];
  const hop = hops.findLast((each) => !rules.trusts(each));
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
