import { describe, expect, test } from 'vitest';
import { memoryDirectory } from '../../src/accounts/file/directory.ts';
import { clientOf, peerOf } from '../../src/gateway/client-address.ts';
import type { RequestFacts } from '../../src/gateway/request.ts';
import type { ForwardedHeaders } from '../../src/gateway/request-head.ts';
import { Rules } from '../../src/gateway/rules.ts';
import { configOf } from '../support/sidecar.ts';

/** A request from this peer, with these headers, to a sidecar that trusts these proxies. */
function requestFrom(
  remoteAddress: string | undefined,
  trustedProxies: readonly string[] = [],
  forwarded: Partial<ForwardedHeaders> = {},
): RequestFacts {
  const config = configOf('http://127.0.0.1:1', { environments: [], trustedProxies });
  const rules = new Rules(config, memoryDirectory([]), new Map());
  const none: ForwardedHeaders = { for: undefined, proto: undefined, host: undefined, others: [] };
  const head = { forwarded: { ...none, ...forwarded } };
  return { raw: { socket: { remoteAddress } }, rules, head } as unknown as RequestFacts;
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
    expect(clientOf(requestFrom(peer))).toBe(subject);
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
    expect(clientOf(requestFrom(one))).toBe(clientOf(requestFrom(other)));
  });

  test.each([
    ['2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['203.0.113.7', '203.0.113.8'],
    ['::ffff:203.0.113.7', '::ffff:203.0.113.8'],
  ])('the peers %s and %s are two clients', (one, other) => {
    expect(clientOf(requestFrom(one))).not.toBe(clientOf(requestFrom(other)));
  });

  test('a peer that has already disconnected has the empty address', () => {
    expect(clientOf(requestFrom(undefined))).toBe('');
  });
});

describe('a peer that is not a trusted proxy', () => {
  test.each([
    ['X-Forwarded-For', { for: '203.0.113.7' }],
    ['Forwarded', { others: ['Forwarded', 'for=203.0.113.7'] }],
  ])('is the client, whatever its %s says', (_, forwarded) => {
    expect(clientOf(requestFrom('192.0.2.1', [], forwarded))).toBe('192.0.2.1');
    expect(clientOf(requestFrom('192.0.2.1', ['192.0.2.2'], forwarded))).toBe('192.0.2.1');
  });
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
    expect(clientOf(requestFrom('10.9.9.9', trusted, { for: hops }))).toBe(subject);
  });

  test.each(['192.0.2.1', '::ffff:10.0.0.1', 'fd00::1', 'fd00::1%eth0'])('the peer %s is trusted', (peer) => {
    expect(clientOf(requestFrom(peer, trusted, { for: '203.0.113.7' }))).toBe('203.0.113.7');
  });

  test.each([
    ['no hop is listed', {}],
    ['all hops are trusted proxies', { for: '10.1.2.3, 10.2.3.4' }],
  ])('the peer is the client if %s', (_, forwarded) => {
    expect(clientOf(requestFrom('10.9.9.9', trusted, forwarded))).toBe('10.9.9.9');
  });

  test.each(['unknown', '_hidden', '', '203.0.113', '203.0.113.7:51234:5', 'x'.repeat(10_000)])(
    'the peer is the client if the last hop is %.20j, which is not an address',
    (hop) => {
      expect(clientOf(requestFrom('10.9.9.9', trusted, { for: `203.0.113.7, ${hop}` }))).toBe('10.9.9.9');
    },
  );
});

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8::7', '2001:db8::7'],
  [undefined, ''],
])('the peer %s is logged as %s', (remoteAddress, peer) => {
  expect(peerOf(requestFrom(remoteAddress))).toBe(peer);
});
