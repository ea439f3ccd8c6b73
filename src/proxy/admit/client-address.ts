import type { ClientDetail } from '../../config/config.ts';
import type { ClientConnection } from '../capacity/client-connection.ts';
import { canonicalAddress, networkOf, networksOf } from '../../networks.ts';
import type { GatewaySnapshot } from './snapshot.ts';

/**
 * The networks of the client, as in `networksOf`. The client is the peer or, behind trusted proxies, the last hop that is not a trusted
 * proxy.
 *
 * @param forwardedFor the value of `X-Forwarded-For`
 */
export function clientNetworks(
  peer: string,
  forwardedFor: string | undefined,
  snapshot: GatewaySnapshot,
): readonly string[] {
  return networksOf(findClient(peer, forwardedFor, snapshot));
}

/** The network of the client's site: the IPv6 /48, because a site usually gets a whole /48, or the IPv4 address alone. */
export function clientSite(peer: string, forwardedFor: string | undefined, snapshot: GatewaySnapshot): string {
  const client = findClient(peer, forwardedFor, snapshot);
  return client.includes(':') ? networkOf(client) : client;
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
  return withDetail(canonicalAddress(remoteAddress ?? '') ?? '', detail);
}

function withDetail(address: string, detail: ClientDetail): string | undefined {
  if (detail === 'none') return undefined;
  return (detail === 'full' ? address : networkOf(address)) || undefined;
}

/** How many hops are read at most. Each takes time, and if anyone can connect from a trusted network, anyone can send thousands of them. */
const maxHops = 32;

/** The canonical address of a client; empty if the client has already left. */
function findClient(peer: string, forwardedFor: string | undefined, snapshot: GatewaySnapshot): string {
  if (!snapshot.trusts(peer)) return canonicalAddress(peer) ?? '';
  // Read the hops from the right, and only as far as trusted proxies vouch for them. A client may claim thousands of hops further left.
  let hops = 0;
  for (let rest = forwardedFor; rest !== undefined && hops < maxHops; hops += 1) {
    const comma = rest.lastIndexOf(',');
    const hop = withoutPort(rest.slice(comma + 1));
    if (!snapshot.trusts(hop)) return canonicalAddress(hop) ?? canonicalAddress(peer) ?? '';
    rest = comma === -1 ? undefined : rest.slice(0, comma);
  }
  return canonicalAddress(peer) ?? '';
}

/** Removes the port from a hop. Some proxies add a port, and put an IPv6 address in brackets. */
function withoutPort(hop: string): string {
  const text = hop.trim();
  return /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
}
