import { isIPv4, isIPv6, SocketAddress } from 'node:net';
import type { RequestHead } from './request-head.ts';
import type { RequestFacts } from './request.ts';

/** An IPv4 address in IPv6's clothes (RFC 4291 §2.5.5.2): how IPv4 peers of a dual-stack listener show. */
const mappedIPv4 = /^::ffff:([\d.]+)$/;

/** The address at the other end of the connection. */
export function peerOf({ raw }: Pick<RequestFacts, 'raw'>): string {
  return raw.socket.remoteAddress?.replace(mappedIPv4, '$1') ?? '';
}

/**
 * The client's address as a subject of limits: of what trusted proxies say the last hop that is not one of theirs, else
 * the peer's, whatever it says of others; an IPv6 network of 64 bits as one, because that is what one client is given.
 */
export function clientOf(request: Pick<RequestFacts, 'raw' | 'rules'>, head: RequestHead): string {
  const peer = peerOf(request);
  if (!request.rules.trusts(peer)) return subject(peer) ?? '';
  const hops = head.forwarded.for?.split(',').map(withoutPort) ?? [];
  const hop = hops.findLast((each) => !request.rules.trusts(each));
  return subject(hop ?? peer) ?? subject(peer) ?? '';
}

/** A hop as some proxies write it, with the port of its connection, and then an IPv6 address in brackets. */
function withoutPort(hop: string): string {
  const text = hop.trim();
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}

/** One spelling for all ways to write an address; undefined for what is none. */
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
