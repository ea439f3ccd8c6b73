import { describe, expect, test } from 'vitest';
import { send } from '../support/client.ts';
import { firstSeen } from '../support/gateway.ts';
import { configOf, keys, startSidecar } from '../support/sidecar.ts';
import { startUpstream, type SeenRequest } from '../support/upstream.ts';

const initialize = '/api/v1/transactions/initialize';

async function seenOf(
  line: string,
  headers: Readonly<Record<string, string>>,
  { forwardsAuthorization = false, trustedProxies = [] as readonly string[] } = {},
): Promise<SeenRequest> {
  const upstream = await startUpstream();
  const base = configOf(upstream.origin, { trustedProxies });
  const environments = base.environments.map((environment) => ({
    ...environment,
    upstream: { ...environment.upstream, forwardsAuthorization },
  }));
  const sidecar = await startSidecar({ ...base, environments });
  await send(sidecar, line, { headers });
  return firstSeen(upstream);
}

describe('Authorization', () => {
  test.each(['Bearer', 'bearer', 'BEARER  '])('is not forwarded: %j', async (scheme) => {
    const seen = await seenOf('GET /', { Authorization: `${scheme} ${keys.globex}` });
    expect(seen.headers).not.toHaveProperty('authorization');
    expect(JSON.stringify(seen)).not.toContain(keys.globex);
    expect(seen.headers['x-account-id']).toBe('globex');
  });

  test.each([`Bearer ${keys.globex}`, `bearer   ${keys.globex}`])(
    'is forwarded unchanged to a core that checks keys itself: %s',
    async (authorization) => {
      const seen = await seenOf('GET /', { authorization }, { forwardsAuthorization: true });
      expect(seen.headers.authorization).toBe(authorization);
    },
  );

  test.each(['Basic dTpw', 'Bearer core-internal-token', `Bearer ${keys.acme}`])(
    'of a preflight is never forwarded: %s',
    async (authorization) => {
      const preflight = { Origin: 'https://shop.example', 'Access-Control-Request-Method': 'POST', authorization };
      const seen = await seenOf(`OPTIONS ${initialize}`, preflight, { forwardsAuthorization: true });
      expect(seen.headers).not.toHaveProperty('authorization');
      expect(seen.headers).not.toHaveProperty('x-account-id');
    },
  );
});

describe('headers from which upstreams take the address of a client', () => {
  const names = [
    'X-Real-IP',
    'True-Client-IP',
    'CF-Connecting-IP',
    'CF-Connecting-IPv6',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'Fastly-Client-IP',
    'Client-IP',
    'X-Forwarded',
    'Forwarded-For',
    'X-Original-Forwarded-For',
  ];
  const Authorization = `Bearer ${keys.globex}`;

  test.each(names)('%s is dropped in every spelling unless a trusted proxy sends it', async (name) => {
    const spellings = [name, name.toLowerCase(), name.replaceAll('-', '_'), name.replace('-', '.')];
    for (const spelling of spellings) {
      const seen = await seenOf('GET /', { Authorization, [spelling]: '6.6.6.6' }, { trustedProxies: ['10.0.0.0/8'] });
      expect(JSON.stringify(seen.rawHeaders)).not.toContain('6.6.6.6');
    }
    const trusted = await seenOf('GET /', { Authorization, [name]: '6.6.6.6' }, { trustedProxies: ['127.0.0.1'] });
    expect(trusted.headers[name.toLowerCase()]).toBe('6.6.6.6');
    const disguised = { Authorization, [name.replaceAll('-', '_')]: '6.6.6.6' };
    const misspelt = await seenOf('GET /', disguised, { trustedProxies: ['127.0.0.1'] });
    expect(JSON.stringify(misspelt.rawHeaders)).not.toContain('6.6.6.6');
  });
});

test.each([
  'Envelope',
  'Envelope-Credentials',
  'Envelope-Content-Type',
  'Envelope-Other',
  'ENVELOPE_OTHER',
  'Envelope.X',
])('%s is not forwarded from a client', async (name) => {
  const seen = await seenOf('GET /', { Authorization: `Bearer ${keys.globex}`, [name]: 'forged' });
  expect(JSON.stringify(seen.rawHeaders)).not.toContain('forged');
});

test.each(['Proxy', 'PROXY', 'Proxy-Connection', 'Proxy_Connection'])('%s is never forwarded', async (name) => {
  const sent = { Authorization: `Bearer ${keys.globex}`, [name]: 'http://evil.example' };
  const seen = await seenOf('GET /', sent, { trustedProxies: ['127.0.0.1'] });
  expect(JSON.stringify(seen.rawHeaders)).not.toContain('evil');
});

test('headers with similar names are forwarded', async () => {
  const alike = { 'X-Envelope': 'a', Envelopes: 'b', 'X-Real-IP-2': 'c' };
  const { rawHeaders } = await seenOf('GET /', { Authorization: `Bearer ${keys.globex}`, ...alike });
  expect(rawHeaders).toEqual(expect.arrayContaining(Object.entries(alike).flat()));
});
