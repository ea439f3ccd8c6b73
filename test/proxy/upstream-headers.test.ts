import { describe, expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { firstSeen, startGateway } from '../support/gateway.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream, type SeenRequest } from '../support/upstream.ts';

const host = 'pay.example:8443';
/** Headers with which a proxy in front of the sidecar describes its client. */
const told = {
  'X-Forwarded-For': '203.0.113.7, 198.51.100.2',
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-Host': 'shop.example',
  'X-Forwarded-Port': '443',
  Forwarded: 'for=203.0.113.7;proto=https',
};

async function seenBehind(
  trustedProxies: readonly string[],
  headers: Readonly<Record<string, string>>,
): Promise<SeenRequest> {
  const { sidecar, upstream } = await startGateway({ trustedProxies });
  await send(sidecar, 'GET /', { key: keys.globex, headers: { host, ...headers } });
  return firstSeen(upstream);
}

/** The headers that name the client, as the upstream sees them. */
function forwardedOf({ headers }: SeenRequest): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name.includes('forwarded')));
}

const ofThePeer = { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http', 'x-forwarded-host': host };
const continued = {
  'x-forwarded-for': '203.0.113.7, 198.51.100.2, 127.0.0.1',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'shop.example',
  'x-forwarded-port': '443',
  forwarded: 'for=203.0.113.7;proto=https',
};

describe('the forwarded address of a client', () => {
  test.each([
    ['no proxy is trusted', []],
    ['only others are trusted', ['10.0.0.0/8', '::1', '127.0.0.2/32', '2001:db8::/32']],
    ['all global IPv6 is trusted', ['2000::/3']],
  ])('is the peer, whatever its headers say, if %s', async (_, trusted) => {
    expect(forwardedOf(await seenBehind(trusted, told))).toEqual(ofThePeer);
  });

  test.each([
    ['by its address', ['127.0.0.1']],
    ['by its network', ['10.0.0.0/8', '127.0.0.0/8']],
    ['by the network of all addresses', ['0.0.0.0/0']],
    ['by a network of one address', ['127.0.0.1/32']],
  ])('follows the hops before the peer if the peer is trusted %s', async (_, trusted) => {
    expect(forwardedOf(await seenBehind(trusted, told))).toEqual(continued);
  });

  test('is the peer if a trusted proxy sends no headers', async () => {
    expect(forwardedOf(await seenBehind(['127.0.0.1'], {}))).toEqual(ofThePeer);
  });

  test('is appended to several headers of one name', async () => {
    const { sidecar, upstream } = await startGateway({ trustedProxies: ['127.0.0.1'] });
    const headers = { 'x-forwarded-for': ['203.0.113.7', '198.51.100.2'] };
    await send(sidecar, 'GET /', { key: keys.globex, headers });
    expect(upstream.seen[0]?.headers['x-forwarded-for']).toBe('203.0.113.7, 198.51.100.2, 127.0.0.1');
  });

  test.each([
    ['with underscores', (name: string) => name.replaceAll('-', '_')],
    ['with a dot', (name: string) => name.replace(/-(?=[^-]*$)/, '.')],
  ])('is not taken from a disguised header: %s', async (_, spell) => {
    const names = ['X-Forwarded-For', 'X-Forwarded-Port', 'X-Forwarded-Prefix'];
    const headers = Object.fromEntries(names.map((name) => [spell(name), 'forged']));
    for (const trusted of [[], ['127.0.0.1']]) {
      expect((await seenBehind(trusted, headers)).rawHeaders).not.toContain('forged');
    }
  });

  test('is not taken from headers that Connection nominates', async () => {
    const headers = { ...told, Connection: 'close, X-Forwarded-Port' };
    expect(await seenBehind(['127.0.0.1'], headers)).not.toHaveProperty(['headers', 'x-forwarded-port']);
  });
});

describe('an IPv6 listener', () => {
  async function seenOver(address: string, trustedProxies: readonly string[]): Promise<SeenRequest> {
    const upstream = await startUpstream();
    const base = configOf(upstream.origin, { trustedProxies });
    const sidecar = await startSidecar({ ...base, listen: { ...base.listen, host: '::' } });
    await send({ host: address, port: sidecar.port }, 'GET /', { key: keys.globex, headers: { host, ...told } });
    return firstSeen(upstream);
  }

  test('names an IPv4 peer as IPv4', async () => {
    expect(forwardedOf(await seenOver('127.0.0.1', []))).toEqual(ofThePeer);
  });

  test('trusts an IPv4 peer by its IPv4 network', async () => {
    expect(forwardedOf(await seenOver('127.0.0.1', ['127.0.0.0/8']))).toEqual(continued);
  });

  test('names an IPv6 peer', async () => {
    expect(forwardedOf(await seenOver('::1', ['127.0.0.0/8']))).toEqual({ ...ofThePeer, 'x-forwarded-for': '::1' });
  });

  test.each(['::1', '::/64', '::/0'])('trusts an IPv6 peer by %s', async (network) => {
    expect(forwardedOf(await seenOver('::1', [network]))).toEqual({
      ...continued,
      'x-forwarded-for': '203.0.113.7, 198.51.100.2, ::1',
    });
  });
});
