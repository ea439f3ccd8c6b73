import { isIPv4, isIPv6, SocketAddress } from 'node:net';
import type { ClientDetail } from '../../config/config.ts';
import type { ClientConnection } from '../capacity/client-connection.ts';
import type { GatewaySnapshot } from './snapshot.ts';

/** An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2). A dual-stack listener sees IPv4 peers in this form. */
const mappedIPv4 = /^::ffff:([\d.]+)$/;

/** The normal spelling of a peer's address, in which an IPv4 address is not mapped to IPv6. */
export function peerAddress(remoteAddress: string): string {
  return remoteAddress.startsWith('::') ? remoteAddress.replace(mappedIPv4, '$1') : remoteAddress;
}

/**
 * The client's networks, largest first, ending with what limits treat as its address: for IPv6, the /48, the /56 and the /64; for IPv4, the
 * /24 and the address itself. Providers assign IPv6 networks of these three sizes to customers, and a client usually gets a whole /64, so
 * the /64 counts as its address. The client is the peer or, behind trusted proxies, the last hop that is not a trusted proxy.
 *
 * @param forwardedFor the value of `X-Forwarded-For`
 */
export function clientNetworks(
  peer: string,
  forwardedFor: string | undefined,
  snapshot: GatewaySnapshot,
): readonly string[] {
  const client = findClient(peer, forwardedFor, snapshot);
  if (!client.includes(':')) return [network(client, 3, 3), client];
  const address = network(client, undefined, 4);
  return [network(client, undefined, 3), address.replace(/[0-9a-f]{1,2}::\/64$/, '::/56'), address];
}

/** The network of the client's site: the IPv6 /48, because a site usually gets a whole /48, or the IPv4 address alone. */
export function clientSite(peer: string, forwardedFor: string | undefined, snapshot: GatewaySnapshot): string {
  return network(findClient(peer, forwardedFor, snapshot), undefined, 3);
}

/**
 * The client's address for the log: the whole address, its network, or undefined. The result needs no escaping in JSON. The client is found
 * as in `clientNetworks`, so a client can pretend to have a different address only by deceiving a trusted proxy.
 */
export function loggedAddress(
  client: Pick<ClientConnection, 'peer' | 'loggedPeer'>,
  forwardedFor: string | undefined,
  snapshot: GatewaySnapshot,
): string | undefined {
  const { clientDetail: detail } = snapshot;
  // Nothing is cached for a trusted proxy, because each of its requests may come from a different client.
  if (snapshot.trusts(client.peer)) return withDetail(findClient(client.peer, forwardedFor, snapshot), detail);
  if (client.loggedPeer?.detail !== detail) client.loggedPeer = { detail, address: loggedPeer(client.peer, detail) };
  return client.loggedPeer.address;
}

/** Like `loggedAddress`, for a peer that has not sent a request. */
export function loggedPeer(remoteAddress: string | undefined, detail: ClientDetail): string | undefined {
  return withDetail(canonical(peerAddress(remoteAddress ?? '')) ?? '', detail);
}

function withDetail(address: string, detail: ClientDetail): string | undefined {
  if (detail === 'none') return undefined;
  return (detail === 'full' ? address : network(address, 3, 3)) || undefined;
}

/** The canonical address of a client; empty if the client has already left. */
function findClient(peer: string, forwardedFor: string | undefined, snapshot: GatewaySnapshot): string {
  if (!snapshot.trusts(peer)) return canonical(peer) ?? '';
  // Read the hops from the right, and only as far as trusted proxies vouch for them. A client may claim thousands of hops further left.
  for (let rest = forwardedFor; rest !== undefined;) {
    const comma = rest.lastIndexOf(',');
    const hop = withoutPort(rest.slice(comma + 1));
    if (!snapshot.trusts(hop)) return canonical(hop) ?? canonical(peer) ?? '';
    rest = comma === -1 ? undefined : rest.slice(0, comma);
  }
  return canonical(peer) ?? '';
}

/** Removes the port from a hop. Some proxies add a port, and put an IPv6 address in brackets. */
function withoutPort(hop: string): string {
  const text = hop.trim();
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}

/** The canonical spelling of an address. An IPv4-mapped address becomes an IPv4 address. Undefined if the text is not an address. */
function canonical(address: string): string | undefined {
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  // The result is in lower case, compressed, and without a zone.
  const { address: compressed } = new SocketAddress({ address, family: 'ipv6' });
  return mappedIPv4.exec(compressed)?.[1] ?? compressed;
}

/**
 * The network of a canonical address.
 *
 * @param bytes  how many bytes of an IPv4 address to keep; undefined to keep the whole address
 * @param groups how many groups of 16 bits of an IPv6 address to keep
 */
function network(address: string, bytes: number | undefined, groups: number): string {
  if (!address.includes(':')) {
    if (bytes === undefined || address === '') return address;
    const first = address.split('.').slice(0, bytes);
    return `${[...first, ...Array<string>(4 - bytes).fill('0')].join('.')}/${bytes * 8}`;
  }
  const [before = [], after = []] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const all = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after];
  return `${all.slice(0, groups).join(':')}::/${groups * 16}`;
}
