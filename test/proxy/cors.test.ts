import type { ServerResponse } from 'node:http';
import { describe, expect, test, vi } from 'vitest';
import type { RefusalCode } from '../../src/errors.ts';
import { envelopeOf, expectPlainRefusal, expectSealedRefusal, send, type Sent } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { exchangeRaw, openConnection, parseOnly, type Connection } from '../support/connection.ts';
import { limitUsed } from '../support/metrics.ts';
import { request } from '../support/refused.ts';
import { acme, acmeTest, configOf, globex, keys, route, startSidecar } from '../support/sidecar.ts';
import { settle } from '../support/turns.ts';
import type { Respond } from '../support/upstream.ts';

/** The path that accepts public keys, with POST. */
const open = '/api/v1/transactions/initialize';

const routes = [
  route(open, { methods: ['POST'], keys: ['public', 'secret'] }),
  route(open, { methods: ['GET'] }),
  route('/api/v1/open', { keys: ['public'] }),
  route('/api/v1/refunds', { methods: ['POST'] }),
  route('/api/s2s/*', { envelope: true }),
  route('/api/s2s/browser', { envelope: true, keys: ['public', 'secret'] }),
];

function preflight(method: string, headers: Sent['headers'] = {}): Sent {
  return { headers: { origin: 'https://shop.example', 'access-control-request-method': method, ...headers } };
}

const cors = {
  'Access-Control-Allow-Origin': 'https://shop.example',
  'Access-Control-Allow-Methods': 'POST',
  'Access-Control-Allow-Headers': 'authorization',
};

describe('a preflight on a route for public keys', () => {
  test('gets the upstream’s response', async () => {
    const { sidecar, upstream } = await startGateway({ routes, respond: (_, res) => res.writeHead(204, cors).end() });
    const sent = preflight('POST', { 'access-control-request-headers': 'authorization,content-type' });
    const response = await send(sidecar, `OPTIONS ${open}?x=1`, sent);
    expect(response.status).toBe(204);
    expect(response.headers).toMatchObject({
      'access-control-allow-origin': 'https://shop.example',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'authorization',
      'x-request-id': expect.any(String),
    });
    expect(upstream.seen[0]).toMatchObject({ method: 'OPTIONS', url: `${open}?x=1`, body: '' });
    expect(upstream.seen[0]?.headers).toMatchObject({
      ...sent.headers,
      'x-request-id': response.headers['x-request-id'],
    });
    expect(sidecar.accessLines()[0]).toMatchObject({ route: open, method: 'OPTIONS', status: 204 });
  });

  test.each([open, '/api/v1/open', '/API/V1/Open/', '/api/s2s/browser'])('needs no key on %s', async (path) => {
    const { sidecar, upstream } = await startGateway({ routes });
    const response = await send(sidecar, `OPTIONS ${path}`, preflight('POST'));
    expect([response.status, response.body, response.headers['envelope']]).toEqual([200, '{"ok":true}', undefined]);
    expect(upstream.heads()).toBe(1);
  });

  test('reaches the upstream without a key or an identity, whatever the client sends', async () => {
    const { sidecar, upstream } = await startGateway({ routes });
    const forged = { 'X-Account-Id': 'acme', 'X-Api-Key-Id': 'k', 'X-Api-Key-Kind': 'secret', 'X-Environment': 'live' };
    await send(sidecar, `OPTIONS ${open}`, preflight('POST', { ...forged, authorization: `Bearer ${keys.acme}` }));
    const names = Object.keys(upstream.seen[0]?.headers ?? {});
    expect(names).not.toContain('authorization');
    expect(names.filter((name) => /account|api-key|environment/.test(name))).toEqual([]);
    expect(sidecar.accessLines()[0]).not.toHaveProperty('account');
  });

  test('may have a Content-Length of 0', async () => {
    const { sidecar, upstream } = await startGateway({ routes });
    const response = await send(sidecar, `OPTIONS ${open}`, preflight('POST', { 'content-length': '0' }));
    expect(response.status).toBe(200);
    expect(upstream.heads()).toBe(1);
  });

  test('gets a refusal that browsers can read if the upstream is down', async () => {
    const sidecar = await startSidecar(configOf('http://127.0.0.1:1', { routes }));
    const response = await send(sidecar, `OPTIONS ${open}`, preflight('POST'));
    expectPlainRefusal(response, 'upstream_unavailable');
    expect(response.headers['access-control-allow-origin']).toBe('*');
  });
});

describe('preflights while too many requests are in flight', () => {
  test('wait for their turn, so that a burst of them does not keep a shop’s payments out', async () => {
    const { sidecar } = await startGateway({
      routes,
      limits: { inFlight: 4 },
      respond: (seen, res) => void setTimeout(() => res.writeHead(seen.method === 'OPTIONS' ? 204 : 200).end(), 20),
    });
    const burst = Array.from({ length: 20 }, () => send(sidecar, `OPTIONS ${open}`, preflight('POST')));
    const payments = Array.from({ length: 4 }, () => send(sidecar, `POST ${open}`, { key: keys.acmePublic }));
    expect((await Promise.all(burst)).map(({ status }) => status)).toEqual(Array(20).fill(204));
    const outcomes = await Promise.all(payments);
    // Public keys get two of the four slots. Browsers can read the refusals.
    for (const { status, headers } of outcomes) {
      if (status === 200) continue;
      expect([status, headers['access-control-allow-origin'], headers['retry-after']]).toEqual([503, '*', '1']);
    }
    expect(outcomes.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(2);
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
    expect(await limitUsed(sidecar, 'buffered')).toBe(0);
  });

  test('are refused after timeouts.upstream, and leave nothing behind if their client leaves', async () => {
    const held: ServerResponse[] = [];
    const { sidecar, upstream } = await startGateway({
      routes,
      limits: { inFlight: 1 },
      respond: (_, res) => void held.push(res),
      timeouts: { upstream: 1_000 },
    });
    const first = send(sidecar, `OPTIONS ${open}`, preflight('POST'));
    await vi.waitFor(() => expect(upstream.heads()).toBe(1));
    const second = send(sidecar, `OPTIONS ${open}`, preflight('POST'));
    const left = await openConnection(sidecar.port);
    const head = [`OPTIONS ${open} HTTP/1.1`, 'Host: x', 'Origin: https://a', 'Access-Control-Request-Method: POST'];
    left.send([...head, '', ''].join('\r\n'));
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBeGreaterThan(3_000));
    left.socket.destroy();
    expect((await first).status).toBe(504);
    const { status } = await second;
    expect([503, 504]).toContain(status);
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'in_flight')).toBe(0));
    expect(await limitUsed(sidecar, 'buffered')).toBe(0);
    expect(upstream.heads()).toBeLessThanOrEqual(2);
  });

  test('take turns by client address, and those that have waited longest are refused once the bytes for requests without a key are used up', async () => {
    const held: ServerResponse[] = [];
    const { sidecar, upstream } = await startGateway({
      routes,
      limits: { inFlight: 1, buffered: 8 * 18_000, requestBody: 1 },
      respond: (_, res) => void held.push(res),
      trustedProxies: ['127.0.0.0/8'],
    });
    const from = async (address: string): Promise<Connection> => {
      const fields = ['Host: x', 'Origin: https://a', 'Access-Control-Request-Method: POST'];
      const text = request(`OPTIONS ${open} HTTP/1.1`, ...fields, `X-Forwarded-For: ${address}`);
      const connection = (await openConnection(sidecar.port)).send(text);
      await settle();
      return connection;
    };
    // The addresses of one IPv6 /48 take turns as one client.
    const many = (subnet: number): Promise<Connection> => from(`2001:db8:1:${subnet}::1`);
    const [first, oldest] = [await many(0), await many(1)];
    const [second, third] = [await many(2), await many(3)];
    const other = await from('2001:db8:2::1');
    expect(oldest.received).toBe('');
    // Only four preflights may wait.
    const newest = await many(4);
    expect(await oldest.untilEnded()).toMatch(/^HTTP\/1\.1 503 [^]*Connection: close[^]*"code":"overloaded"/);
    expect(upstream.heads()).toBe(1);
    for (const client of [first, second, other, third, newest]) {
      await vi.waitFor(() => expect(held).toHaveLength(1));
      held.pop()?.writeHead(204).end();
      expect(await client.untilText('\r\n\r\n')).toContain(' 204 ');
    }
    await vi.waitFor(async () => expect(await limitUsed(sidecar, 'buffered')).toBe(0));
  });
});

describe('a request that is not a preflight for a public key needs a key', () => {
  test.each<[string, string, Sent]>([
    ['OPTIONS without Origin', `OPTIONS ${open}`, { headers: { 'access-control-request-method': 'POST' } }],
    ['OPTIONS without a requested method', `OPTIONS ${open}`, { headers: { origin: 'https://shop.example' } }],
    ['a preflight with a body', `OPTIONS ${open}`, { ...preflight('POST'), body: 'x' }],
    ['a preflight with a body in chunks', `OPTIONS ${open}`, { ...preflight('POST'), body: 'x', chunked: true }],
    ['a preflight for a method that needs a secret key', `OPTIONS ${open}`, preflight('GET')],
    ['a preflight for a method that the path does not list', `OPTIONS ${open}`, preflight('DELETE')],
    ['a preflight for a method in lower case', `OPTIONS ${open}`, preflight('post')],
    ['a preflight for a route that needs a secret key', 'OPTIONS /api/v1/refunds', preflight('POST')],
    ['a preflight for an enveloped route', 'OPTIONS /api/s2s/charge', preflight('POST')],
    ['a preflight for an unlisted route', 'OPTIONS /api/v1/other', preflight('POST')],
    ['GET with the headers of a preflight', `GET ${open}`, preflight('POST')],
    ['POST with the headers of a preflight', `POST ${open}`, preflight('POST')],
  ])('%s', async (_, line, sent) => {
    const { sidecar, upstream } = await startGateway({ routes });
    expectPlainRefusal(await send(sidecar, line, sent), 'missing_api_key');
    expect(upstream.heads()).toBe(0);
  });
});

describe('refusals', () => {
  /** The headers that let a page read a refusal and its useful headers. */
  const readable = {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': 'Retry-After, X-Request-Id, Envelope',
  };
  const inactive = { ...globex, active: false };

  test.each<[RefusalCode, string, Sent]>([
    ['missing_api_key', `POST ${open}`, {}],
    ['malformed_api_key', `POST ${open}`, { key: 'x' }],
    ['invalid_api_key', `POST ${open}`, { key: `pk_test_${'x'.repeat(20)}` }],
    ['environment_mismatch', `POST ${open}`, { key: `pk_live_${'x'.repeat(20)}` }],
    ['account_inactive', `POST ${open}`, { key: keys.globexPublic }],
    ['method_not_allowed', `DELETE ${open}`, { key: keys.acmePublic }],
    ['encryption_not_supported', `POST ${open}`, { key: keys.acmePublic, body: envelopeOf(acmeTest, '{}') }],
    ['missing_api_key', `OPTIONS ${open}`, preflight('DELETE')],
  ])('on routes for public keys can be read by browsers: %s', async (code, line, sent) => {
    const { sidecar, upstream } = await startGateway({ routes, accounts: [acme, inactive] });
    const response = await send(sidecar, line, sent);
    expectPlainRefusal(response, code);
    expect(response.headers).toMatchObject(readable);
    expect(upstream.heads()).toBe(0);
  });

  test('can be read by browsers if the parser rejects the middle of the body', async () => {
    const { sidecar } = await startGateway({ routes });
    const head = `POST ${open} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${keys.acmePublic}\r\n`;
    const raw = await exchangeRaw(sidecar.port, `${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nzz\r\n`);
    const response = parseOnly(raw);
    expect(JSON.parse(response.body)).toMatchObject({ code: 'malformed_request' });
    expect(response.headers['access-control-allow-origin']).toBe('*');
  });

  test('can be read by browsers if too many requests are in flight', async () => {
    const held = Promise.withResolvers<ServerResponse>();
    const respond: Respond = (_, res) => held.resolve(res);
    const { sidecar, upstream } = await startGateway({ routes, respond, limits: { inFlight: 1 } });
    const first = send(sidecar, `POST ${open}`, { key: keys.acmePublic });
    const res = await held.promise;
    const response = await send(sidecar, `POST ${open}`, { key: keys.acmePublic });
    expectPlainRefusal(response, 'overloaded');
    expect(response.headers).toMatchObject({ ...readable, 'retry-after': '1' });
    expect(upstream.heads()).toBe(1);
    res.end();
    expect((await first).status).toBe(200);
  });

  test('can be read by browsers if they are sealed', async () => {
    const { sidecar } = await startGateway({ routes });
    const sent = { key: keys.acmePublic, headers: { 'content-encoding': 'gzip' }, body: 'x' };
    const response = await send(sidecar, 'POST /api/s2s/browser', sent);
    expectSealedRefusal(acmeTest, response, 'unsupported_content_encoding');
    expect(response.headers).toMatchObject(readable);
  });

  test.each([
    ['a method that needs a secret key', `GET ${open}`],
    ['a route that needs a secret key', 'POST /api/v1/refunds'],
    ['an enveloped route', 'POST /api/s2s/charge'],
    ['an unlisted route', 'POST /api/v1/other'],
    ['a test endpoint', 'GET /api/s2s/aes-encrypt'],
  ])('on %s cannot be read by browsers', async (_, line) => {
    const { sidecar } = await startGateway({ routes });
    const response = await send(sidecar, line, { key: `sk_test_${'x'.repeat(20)}` });
    expectPlainRefusal(response, 'invalid_api_key');
    expect(response.headers).not.toHaveProperty('access-control-allow-origin');
    expect(response.headers).not.toHaveProperty('access-control-expose-headers');
  });
});

test('the CORS headers of the upstream are forwarded unchanged', async () => {
  const { sidecar } = await startGateway({
    routes,
    respond: (_, res) => res.writeHead(401, { 'Access-Control-Allow-Origin': 'https://shop.example' }).end(),
  });
  const response = await send(sidecar, `POST ${open}`, { key: keys.acmePublic });
  expect(response.headers['access-control-allow-origin']).toBe('https://shop.example');
});

describe('a preflight cannot be turned into an ordinary OPTIONS', () => {
  const head = (...lines: readonly string[]): string =>
    [`OPTIONS ${open} HTTP/1.1`, 'Host: localhost', ...lines, '', ''].join('\r\n');
  const own = ['Origin: https://shop.example', 'Access-Control-Request-Method: POST'];

  test.each([
    ['nominating Origin in Connection', 'missing_api_key', [...own, 'Connection: close, origin']],
    [
      'nominating Access-Control-Request-Method in Connection',
      'missing_api_key',
      [...own, 'Connection: close, Access-Control-Request-Method'],
    ],
    [
      'nominating both in Connection',
      'missing_api_key',
      [...own, 'Connection: origin, access-control-request-method', 'Connection: close'],
    ],
    ['a second Origin', 'ambiguous_request', [...own, 'Origin: https://other.example', 'Connection: close']],
    [
      'a second Access-Control-Request-Method',
      'ambiguous_request',
      [...own, 'Access-Control-Request-Method: GET', 'Connection: close'],
    ],
  ])('by %s', async (_name, code, lines) => {
    const { sidecar, upstream } = await startGateway({ routes });
    const response = parseOnly(await exchangeRaw(sidecar.port, head(...lines)));
    expect(JSON.parse(response.body)).toMatchObject({ code });
    expect(upstream.heads()).toBe(0);
  });
});
