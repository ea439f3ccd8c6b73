import { describe, expect, test, vi } from 'vitest';
import { peerAddress } from '../../src/networks.ts';
import { clientNetworks, loggedAddress } from '../../src/proxy/admit/client-address.ts';
import { GatewaySnapshot } from '../../src/proxy/admit/snapshot.ts';
import { configOf } from '../support/sidecar.ts';

/** The client of a request from this peer, with this `X-Forwarded-For`, to a sidecar that trusts these proxies. */
function client(
  remoteAddress: string | undefined,
  trustedProxies: readonly string[] = [],
  forwardedFor?: string,
): string {
  const config = configOf('http://127.0.0.1:1', { environments: [], trustedProxies });
  const snapshot = new GatewaySnapshot(config, new Map());
  return clientNetworks(peerAddress(remoteAddress ?? ''), forwardedFor, snapshot).at(-1) ?? '';
}

describe('without a proxy', () => {
  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8:1::6', '2001:db8:1:0::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['2001::2:3:4:5', '2001:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['1:2:3:4:5:6:203.0.113.7', '1:2:3:4::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ])('the peer %s counts as %s', (peer, subject) => {
    expect(client(peer)).toBe(subject);
  });

  test.each([
    ['2001:db8::1', '2001:db8::ffff:ffff:ffff:ffff'],
    ['2001:db8::1', '2001:DB8::2'],
    ['2001:db8::1', '2001:0db8:0000:0000::2'],
    ['2001:db8::1', '2001:db8:0:0:1:2:3:4'],
    ['203.0.113.7', '::FFFF:203.0.113.7'],
    ['203.0.113.7', '::ffff:cb00:7107'],
    ['fe80::1%eth0', 'fe80::2%eth1'],
  ])('the peers %s and %s are the same client', (one, other) => {
    expect(client(one)).toBe(client(other));
  });

  test.each([
    ['2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['203.0.113.7', '203.0.113.8'],
    ['::ffff:203.0.113.7', '::ffff:203.0.113.8'],
  ])('the peers %s and %s are two clients', (one, other) => {
    expect(client(one)).not.toBe(client(other));
  });

  test('a peer that has already disconnected has the empty address', () => {
    expect(client(undefined)).toBe('');
  });
});

test('a peer that is not a trusted proxy is the client, whatever its X-Forwarded-For says', () => {
  expect(client('192.0.2.1', [], '203.0.113.7')).toBe('192.0.2.1');
  expect(client('192.0.2.1', ['192.0.2.2'], '203.0.113.7')).toBe('192.0.2.1');
});

describe('behind trusted proxies', () => {
  const trusted = ['10.0.0.0/8', 'fd00::/8', '192.0.2.1'];

  test.each([
    ['the only hop', '203.0.113.7', '203.0.113.7'],
    ['the last hop, not a hop that the client claims before it', '198.51.100.1, 203.0.113.7', '203.0.113.7'],
    ['the last hop that is not a trusted proxy', '198.51.100.1, 203.0.113.7, 10.1.2.3, fd00::5', '203.0.113.7'],
    ['the last hop, however it is spaced', ' 198.51.100.1 ,203.0.113.7 , 10.1.2.3', '203.0.113.7'],
    ['a hop that is an IPv6 network', '2001:DB8::7', '2001:db8:0:0::/64'],
    ['a hop with a port', '203.0.113.7:51234', '203.0.113.7'],
    ['a hop with brackets', '[2001:db8::7]', '2001:db8:0:0::/64'],
    ['a hop with brackets and a port', '[2001:db8::7]:443', '2001:db8:0:0::/64'],
    ['a hop before a trusted proxy with a port', '203.0.113.7, 10.1.2.3:4567, [fd00::5]:89', '203.0.113.7'],
    ['a hop before a trusted proxy in mapped form', '203.0.113.7, ::ffff:10.1.2.3', '203.0.113.7'],
  ])('the client is %s', (_, hops, subject) => {
    expect(client('10.9.9.9', trusted, hops)).toBe(subject);
  });

  test.each(['192.0.2.1', '::ffff:10.0.0.1', 'fd00::1', 'fd00::1%eth0'])('the peer %s is trusted', (peer) => {
    expect(client(peer, trusted, '203.0.113.7')).toBe('203.0.113.7');
  });

  test.each([
    ['no hop is listed', undefined],
    ['all hops are trusted proxies', '10.1.2.3, 10.2.3.4'],
  ])('the peer is the client if %s', (_, forwarded) => {
    expect(client('10.9.9.9', trusted, forwarded)).toBe('10.9.9.9');
  });

  test.each([
    [31, '203.0.113.7'],
    [32, '10.9.9.9'],
  ])('only the last 32 hops are read: behind %d trusted proxies, the client is %s', (proxies, subject) => {
    const hops = ['203.0.113.7', ...Array.from({ length: proxies }, () => '10.1.2.3')];
    expect(client('10.9.9.9', trusted, hops.join(', '))).toBe(subject);
  });

  test.each(['unknown', '_hidden', '', '203.0.113', '203.0.113.7:51234:5', 'x'.repeat(10_000)])(
    'the peer is the client if the last hop is %.20j, which is not an address',
    (hop) => {
      expect(client('10.9.9.9', trusted, `203.0.113.7, ${hop}`)).toBe('10.9.9.9');
    },
  );
});

test('of thousands of hops, only those that trusted proxies vouch for are read', () => {
  const config = configOf('http://127.0.0.1:1', { environments: [], trustedProxies: ['10.0.0.0/8'] });
  const snapshot = new GatewaySnapshot(config, new Map());
  const trusts = vi.spyOn(snapshot, 'trusts');
  for (const claimed of [','.repeat(15_000), '203.0.113.7,'.repeat(1_300)]) {
    trusts.mockClear();
    expect(clientNetworks('10.9.9.9', `${claimed}198.51.100.1, 10.1.2.3`, snapshot).at(-1)).toBe('198.51.100.1');
    expect(trusts).toHaveBeenCalledTimes(3);
  }
});

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8::7', '2001:db8::7'],
])('the peer %s is logged as %s', (remoteAddress, peer) => {
  expect(peerAddress(remoteAddress)).toBe(peer);
});

describe('the access line has', () => {
  const logged = (detail: 'none' | 'truncated' | 'full', peer: string, forwardedFor?: string): string | undefined => {
    const trustedProxies = ['10.0.0.0/8'];
    const log = { level: 'info', client: detail } as const;
    const config = configOf('http://127.0.0.1:1', { environments: [], trustedProxies, log });
    return loggedAddress({ peer, loggedPeer: undefined }, forwardedFor, new GatewaySnapshot(config, new Map()));
  };

  test.each([
    ['203.0.113.7', '203.0.113.0/24'],
    ['::ffff:203.0.113.7', '203.0.113.0/24'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
    ['2001:DB8::6', '2001:db8:0::/48'],
    ['::1', '0:0:0::/48'],
    ['fe80::1%eth0', 'fe80:0:0::/48'],
    ['', undefined],
  ])('for the peer %j, its network %j if addresses are truncated', (peer, network) => {
    expect(logged('truncated', peer)).toBe(network);
  });

  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:DB8:0::7', '2001:db8::7'],
    ['fe80::1%eth0', 'fe80::1'],
    ['', undefined],
  ])('for the peer %j, the address %j if addresses are logged in full', (peer, address) => {
    expect(logged('full', peer)).toBe(address);
  });

  test('no address if addresses are left out', () => {
    expect(logged('none', '203.0.113.7')).toBeUndefined();
  });

  test.each([
    ['the last hop that is not a proxy', '10.0.0.1', '198.51.100.1, 203.0.113.7:4711, 10.1.2.3', '203.0.113.7'],
    ['the proxy, if the last hop is not an address', '10.0.0.1', '203.0.113.7, "}', '10.0.0.1'],
    ['the proxy, if it names nobody', '10.0.0.1', undefined, '10.0.0.1'],
    ['the peer, if it is not a proxy', '192.0.2.1', '203.0.113.7', '192.0.2.1'],
  ])('%s', (_, peer, hops, address) => {
    expect(logged('full', peer, hops)).toBe(address);
  });
});
