import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { accessLine } from '../../src/proxy/outcome.ts';
import type { Responder } from '../../src/proxy/respond/responder.ts';
import { envelopeOf, send, type Sent } from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import {
  acmeTest,
  apiKey,
  configOf,
  globex,
  keys,
  route,
  routes,
  targetOf,
  type TestSidecar,
} from '../support/sidecar.ts';
import { scrape } from '../support/metrics.ts';
import { startByteUpstream } from '../support/byte-upstream.ts';
import { eventually } from '../support/eventually.ts';

/** The documented members that an access line may have, in addition to those of every log line. */
const allowed = [
  ...(/^## Logs$([\s\S]*?)^## /m
    .exec(readFileSync('docs/operators/monitor.md', 'utf8'))?.[1]
    ?.matchAll(/^- `(\w+)`/gm) ?? []),
].map(([, member = '']) => member);
const ofEveryLine = ['level', 'time', 'msg'];

/** Waits until there are this many access lines. Each is written a moment after its response. */
async function accessLines(sidecar: TestSidecar, count: number): Promise<Record<string, unknown>[]> {
  await eventually(`there are ${count} access lines`, () => sidecar.accessLines().length >= count);
  return sidecar.accessLines();
}

async function lineOf(sidecar: TestSidecar, line: string, sent: Sent): Promise<Record<string, unknown>> {
  const before = sidecar.accessLines().length;
  await send(sidecar, line, sent);
  const lines = await accessLines(sidecar, before + 1);
  expect(lines).toHaveLength(before + 1);
  return lines[before] ?? {};
}

const number = expect.any(Number) as number;

describe('an access line', () => {
  test('of an enveloped exchange has all documented fields, and no others', async () => {
    const { sidecar } = await startGateway();
    const body = envelopeOf(acmeTest, '{"amount":1}');
    const line = await lineOf(sidecar, 'POST /api/s2s/charge?a=b', {
      key: keys.acme,
      body,
      headers: {
        'X-Request-Id': 'order-1',
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      },
    });
    expect(line).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      msg: 'request',
      request_id: 'order-1',
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
      client: '127.0.0.0/24',
      environment: 'test',
      route: '/api/s2s/*',
      method: 'POST',
      status: 200,
      account: 'acme',
      api_key: 'sk_test-acmeac',
      bytes_in: body.length,
      bytes_out: '{"data":""}'.length + 32,
      duration_ms: number,
      upstream_ms: number,
      envelope_ms: number,
    });
    const { duration_ms, upstream_ms, envelope_ms } = line as Record<string, number>;
    expect(duration_ms).toBeGreaterThanOrEqual(upstream_ms ?? NaN);
    expect(upstream_ms).toBeGreaterThan(0);
    expect(envelope_ms).toBeGreaterThan(0);
  });

  test('of plain traffic has no field `envelope`', async () => {
    const { sidecar } = await startGateway();
    expect(await lineOf(sidecar, 'POST /api/v1/refunds', { key: keys.globex, body: '{"amount":1}' })).toEqual({
      level: 'info',
      time: expect.any(String) as string,
      msg: 'request',
      request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      client: '127.0.0.0/24',
      environment: 'test',
      route: 'unlisted',
      method: 'POST',
      status: 200,
      account: 'globex',
      api_key: 'sk_test-globex',
      bytes_in: 12,
      bytes_out: 11,
      duration_ms: number,
      upstream_ms: number,
    });
  });

  test.each([
    ['none', undefined, undefined],
    ['truncated', '127.0.0.0/24', '203.0.113.0/24'],
    ['full', '127.0.0.1', '203.0.113.7'],
  ] as const)('has the client as `log.client: %s` says', async (detail, peer, hop) => {
    const log = { level: 'info', client: detail } as const;
    const headers = { 'X-Forwarded-For': '198.51.100.1, 203.0.113.7' };
    const { sidecar: direct } = await startGateway({ log });
    const { sidecar: behind } = await startGateway({ log, trustedProxies: ['127.0.0.0/8'] });
    for (const sent of [{ key: keys.globex, headers }, { headers }]) {
      expect((await lineOf(direct, 'GET /x', sent))['client']).toBe(peer);
      expect((await lineOf(behind, 'GET /x', sent))['client']).toBe(hop);
    }
  });

  test('has another client for each request of a connection from a proxy', async () => {
    const { sidecar } = await startGateway({
      log: { level: 'info', client: 'full' },
      trustedProxies: ['127.0.0.0/8'],
    });
    const connection = await openConnection(sidecar.port);
    const sent = ['203.0.113.7', '2001:db8::7', '203.0.113.7'];
    const requests = sent.map((client) => `GET /x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${client}\r\n\r\n`);
    await connection.send(requests.join('')).untilText('HTTP/1.1 401', 3);
    const clients = (await accessLines(sidecar, 3)).map(({ client }) => client);
    expect(clients).toEqual(sent);
  });

  test('of an open connection follows a reload of `log.client`', async () => {
    const { sidecar, upstream } = await startGateway({ log: { level: 'info', client: 'full' } });
    const connection = await openConnection(sidecar.port);
    const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
    await connection.send(request).untilText('HTTP/1.1 401');
    sidecar.app.apply(configOf(upstream.origin, { log: { level: 'info', client: 'none' } }));
    await connection.send(request).untilText('HTTP/1.1 401', 2);
    const clients = (await accessLines(sidecar, 2)).map(({ client }) => client);
    expect(clients).toEqual(['127.0.0.1', undefined]);
  });

  test('of a refusal has its code', async () => {
    const { sidecar } = await startGateway();
    expect(await lineOf(sidecar, 'GET /x', {})).toMatchObject({ status: 401, code: 'missing_api_key' });
    expect(await lineOf(sidecar, 'GET //', {})).toMatchObject({
      status: 400,
      code: 'ambiguous_request',
      route: 'none',
    });
    const forbidden = await lineOf(sidecar, 'GET /x', { key: keys.globexPublic });
    expect(forbidden).toMatchObject({ status: 403, code: 'key_not_permitted', account: 'globex' });
  });

  test.each([
    ['revoked', { revokedAt: 1 }],
    ['expired', { expiresAt: 1 }],
  ])('of a %s key names the key, its account and the reason, which a metric counts', async (reason, ended) => {
    const accounts = [{ ...globex, keys: [apiKey(keys.globex, ended)] }];
    const { sidecar, upstream } = await startGateway({ accounts });
    const line = await lineOf(sidecar, 'GET /x', { key: keys.globex });
    expect(line).toMatchObject({ status: 401, code: 'invalid_api_key', reason, account: 'globex' });
    expect(line).toHaveProperty('api_key', apiKey(keys.globex).id);
    const counted = `envelope_sidecar_invalid_keys_total{environment="test",reason="${reason}"} 1\n`;
    expect(await scrape(sidecar)).toContain(counted);
    expect(upstream.seen).toEqual([]);
  });

  test('of an unknown key has the reason, and no account', async () => {
    const { sidecar } = await startGateway();
    const line = await lineOf(sidecar, 'GET /x', { key: `${keys.globex}x` });
    expect(line).toMatchObject({ code: 'invalid_api_key', reason: 'unknown' });
    expect(line).not.toHaveProperty('account');
  });

  test('of bytes that are not HTTP has a status and a code, and no method', async () => {
    const { sidecar } = await startGateway();
    await (await openConnection(sidecar.port)).send('no HTTP\r\n\r\n').untilEnded();
    expect(await accessLines(sidecar, 1)).toEqual([
      {
        level: 'warn',
        time: expect.any(String) as string,
        msg: 'request',
        request_id: expect.any(String) as string,
        client: '127.0.0.0/24',
        route: 'none',
        status: 400,
        code: 'malformed_request',
        bytes_in: 0,
        bytes_out: expect.any(Number) as number,
        duration_ms: expect.any(Number) as number,
      },
    ]);
  });

  test('of an upstream failure has the error and its code', async () => {
    const { sidecar, upstream } = await startGateway();
    upstream.server.close();
    const line = await lineOf(sidecar, 'GET /x', { key: keys.globex });
    expect(line).toMatchObject({ status: 502, code: 'upstream_unavailable', upstream_error: 'ECONNREFUSED' });
  });

  test('of a client that disconnects has the status 499 and no code', async () => {
    const { sidecar, upstream } = await startGateway({ respond: () => {} });
    const client = await openConnection(sidecar.port);
    client.send(`GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${keys.globex}\r\n\r\n`);
    await eventually('the upstream has the request', () => upstream.heads() === 1);
    client.socket.destroy();
    const [line] = await accessLines(sidecar, 1);
    expect(line).toMatchObject({ status: 499, account: 'globex', bytes_out: 0 });
    expect(line).not.toHaveProperty('code');
  });

  test('of a response that the upstream aborts has the status it began with', async () => {
    const upstream = await startByteUpstream(({ socket }) => {
      socket.end('HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n1234');
    });
    const { sidecar } = await startGatewayBefore(upstream.origin);
    expect(await wholeOrNot(send(sidecar, 'GET /x', { key: keys.globex }))).toBe('broken off');
    const [line] = await accessLines(sidecar, 1);
    expect(line).toMatchObject({ status: 201, bytes_out: 4 });
    expect(line).toHaveProperty('upstream_error');
  });
});

function wholeOrNot(response: Promise<unknown>): Promise<'whole' | 'broken off'> {
  return response.then(
    () => 'whole' as const,
    () => 'broken off' as const,
  );
}

/** Starts a sidecar in front of an upstream that is already running. */
async function startGatewayBefore(origin: string): ReturnType<typeof startGateway> {
  return startGateway({ environments: [{ name: 'test', hosts: [], upstream: targetOf(origin) }] });
}

test('the access line has the documented members, and no others', () => {
  const client = { peer: '' };
  const snapshot = { trusts: () => false, clientDetail: 'none' };
  const responder = { client, snapshot, exchange: { reported: [] }, http: {}, timing: {} } as unknown as Responder;
  expect(Object.keys(accessLine(responder)).toSorted()).toEqual(allowed.toSorted());
});

test('the log contains no path, query, header, body or key of clients and upstreams', async () => {
  const canaries = new Set<string>();
  const canary = (name: string): string => {
    canaries.add(`canary${name}`);
    return `canary${name}`;
  };
  const { sidecar, upstream } = await startGateway({
    routes: [...routes, route('/api/v1/orders/:id')],
    respond: (_seen, res) => {
      res.writeHead(200, canary('UpstreamReason'), {
        'X-Upstream': canary('UpstreamHeader'),
        'Set-Cookie': canary('UpstreamCookie'),
      });
      res.end(canary('UpstreamBody'));
    },
  });
  const path = `${canary('Path')}?q=${canary('Query')}`;
  const headers = {
    'X-Custom': canary('Header'),
    Cookie: canary('Cookie'),
    'User-Agent': canary('Agent'),
    traceparent: canary('Trace'),
    // This is too long to be used as the request id.
    'X-Request-Id': `${canary('RequestId')}${'x'.repeat(128)}`,
    'X-Forwarded-For': canary('Forwarded'),
    'X-Account-Id': canary('Account'),
    [canary('HeaderName')]: '1',
  };
  const { key, iv } = acmeTest;
  for (const secret of [key, iv, ...Object.values(keys)]) canaries.add(secret);
  const stranger = `sk_test_${canary('UnknownApiKey')}xx`;

  const body = JSON.stringify({ card: canary('CardNumber') });
  const sealed = (plaintext: string): string => {
    const envelope = envelopeOf(acmeTest, plaintext);
    canaries.add(envelope.slice(9, -2));
    return envelope;
  };
  await send(sidecar, `POST /${path}`, { key: keys.globex, headers, body });
  await send(sidecar, `GET /api/v1/orders/${path}`, { key: keys.globex, headers });
  await send(sidecar, `POST /${path}`, { key: stranger, headers, body });
  await send(sidecar, `POST /${path}`, { headers: { ...headers, authorization: canary('Authorization') }, body });
  await send(sidecar, `POST /api/s2s/${path}`, { key: keys.acme, headers, body: sealed(body) });
  await send(sidecar, `POST /api/s2s/${path}`, { key: keys.acme, headers, body: sealed(canary('NoJson')) });
  await send(sidecar, `POST /api/s2s/${path}`, { key: keys.acme, headers, body });
  await send(sidecar, `POST /${path}`, { key: keys.acme, headers, body: sealed(body) });
  await send(sidecar, `POST //${path}`, { key: keys.globex, headers, body });
  await send(sidecar, 'POST /api/s2s/aes-encrypt', { headers: { ...headers, key, iv }, body });
  const broken = JSON.stringify({ encrypted_data: canary('Ciphertext') });
  await send(sidecar, 'POST /api/s2s/aes-decrypt', { headers: { ...headers, key, iv }, body: broken });
  await (await openConnection(sidecar.port)).send(`${canary('NoHttp')}\r\n\r\n`).untilEnded();
  upstream.server.closeAllConnections();
  upstream.server.close();
  await send(sidecar, `POST /${path}`, { key: keys.globex, headers, body });

  const lines = await accessLines(sidecar, 13);
  expect(new Set(lines.map(({ code }) => code)).size).toBeGreaterThan(6);
  for (const line of lines) expect([...allowed, ...ofEveryLine]).toEqual(expect.arrayContaining(Object.keys(line)));
  const log = JSON.stringify(sidecar.log);
  expect(canaries.size).toBeGreaterThan(20);
  expect([...canaries].filter((each) => log.toLowerCase().includes(each.toLowerCase()))).toEqual([]);
});

describe('the level of an access line', () => {
  test.each([
    ['debug' as const, ['info', 'warn', 'error']],
    ['info' as const, ['info', 'warn', 'error']],
    ['warn' as const, ['warn', 'error']],
    ['error' as const, ['error']],
    ['silent' as const, []],
  ])('is warn for a refusal and error for a 5xx status: log.level %s writes %j', async (level, expected) => {
    const { sidecar, upstream } = await startGateway({ log: { level, client: 'none' } });
    const closed = new Promise((resolve) => void upstream.server.once('close', resolve));
    await send(sidecar, 'GET /x', { key: keys.globex });
    await send(sidecar, 'GET /x', {});
    upstream.server.close();
    upstream.server.closeAllConnections();
    await closed;
    await send(sidecar, 'GET /x', { key: keys.globex });
    await vi.waitFor(() => expect(sidecar.accessLines().map((line) => line['level'])).toEqual(expected));
  });

  test('is error for a 5xx response of the upstream', async () => {
    const { sidecar } = await startGateway({ respond: (_seen, res) => void res.writeHead(500).end() });
    expect(await lineOf(sidecar, 'GET /x', { key: keys.globex })).toMatchObject({ level: 'error', status: 500 });
  });
});

describe('with log.level debug, a line explains each decision:', () => {
  async function decisionOf(line: string, sent: Sent, more: Parameters<typeof startGateway>[0] = {}): Promise<object> {
    const { sidecar } = await startGateway({ log: { level: 'debug', client: 'none' }, ...more });
    await send(sidecar, line, sent);
    await eventually('the decision is logged', () => sidecar.log.some(({ msg }) => msg === 'decision'));
    return sidecar.log.find(({ msg }) => msg === 'decision') ?? {};
  }

  test('it names the route, its permissions and the API key', async () => {
    const [, s2s] = routes;
    expect(await decisionOf('POST /api/s2s/secret-path?secret=query', { key: keys.acme, body: '{}' })).toEqual({
      level: 'debug',
      time: expect.any(String) as string,
      msg: 'decision',
      request_id: expect.any(String) as string,
      match: 'matched',
      routes: [s2s],
      key_kind: 'secret',
      encrypts: true,
    });
  });

  test('it names the routes that have the path but not the method', async () => {
    const [initialize] = routes;
    const decision = await decisionOf('GET /api/v1/transactions/initialize', { key: keys.globex });
    expect(decision).toMatchObject({ match: 'method_not_allowed', routes: [initialize], encrypts: false });
  });

  test.each([
    ['body_too_large', { name: 'requestBody', limit: 5 }, { requestBody: 5 }],
    ['overloaded', { name: 'buffered', limit: 6, used: 0 }, { requestBody: 5_000, buffered: 6 }],
    ['overloaded', { name: 'inFlight', limit: 0, used: 0 }, { inFlight: 0 }],
  ])('it names the exceeded limit: %s by %j', async (_, limit, limits) => {
    const sent = { key: keys.acme, body: envelopeOf(acmeTest, '{}') };
    expect(await decisionOf('POST /api/s2s/x', sent, { limits })).toMatchObject({ limit });
  });
});

test('with log.level info, no line explains decisions', async () => {
  const { sidecar } = await startGateway();
  await lineOf(sidecar, 'GET /x', {});
  expect(sidecar.log.filter(({ msg }) => msg === 'decision')).toEqual([]);
});
