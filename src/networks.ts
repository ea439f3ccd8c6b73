import { isIPv4, isIPv6, SocketAddress } from 'node:net';

/** An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2). A dual-stack listener sees IPv4 peers in this form. */
const mappedIPv4 = /^::ffff:([\d.]+)$/;

/** The normal spelling of a peer's address, in which an IPv4 address is not mapped to IPv6. */
export function peerAddress(remoteAddress: string): string {
  return remoteAddress.startsWith('::') ? remoteAddress.replace(mappedIPv4, '$1') : remoteAddress;
}

/** The canonical spelling of an address. An IPv4-mapped address becomes an IPv4 address. Undefined if the text is not an address. */
export function canonicalAddress(address: string): string | undefined {
  if (isIPv4(address)) return address;
  if (!isIPv6(address)) return undefined;
  // The result is in lower case, compressed, and without a zone.
  const { address: compressed } = new SocketAddress({ address, family: 'ipv6' });
  return peerAddress(compressed);
}

/** The network of a canonical address: the /24 of an IPv4 address, the /48 or /64 of an IPv6 address. */
export function networkOf(address: string, size: 48 | 64 = 48): string {
  if (!address.includes(':')) return address.replace(/\d+$/, '0/24');
  const [before = [], after = []] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const all = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after];
  return `${all.slice(0, size / 16).join(':')}::/${size}`;
}

/**
 * The networks of a canonical address, largest first, ending with what limits treat as the address: for IPv6, the /48, the /56 and the /64;
 * for IPv4, the /24 and the address itself. Providers assign IPv6 networks of these three sizes to customers, and a client usually gets a
 * whole /64, so the /64 counts as its address.
 */
export function networksOf(address: string): readonly string[] {
  if (!address.includes(':')) return [networkOf(address), address];
  const smallest = networkOf(address, 64);
  return [networkOf(address), smallest.replace(/[0-9a-f]{1,2}::\/64$/, '::/56'), smallest];
}
