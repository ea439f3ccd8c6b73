import { Registry } from 'prom-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { KeyDirectory } from '../../src/accounts/key-directory.ts';
import { refusals, type RefusalCode } from '../../src/errors.ts';
import { Listener } from '../../src/http1/listener.ts';
import { GatewaySnapshot } from '../../src/proxy/admit/snapshot.ts';
import { Proxy } from '../../src/proxy/proxy.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { TrafficRecorder } from '../../src/telemetry/traffic-recorder.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import {
  envelopeOf,
  expectPlainRefusal,
  expectSealedRefusal,
  send,
  type Response,
  type Sent,
  opened,
} from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { exchangeRaw, parseOnly, parseResponses } from '../support/connection.ts';
import { listen } from '../support/listen.ts';
import {
  acme,
  acmeLive,
  acmeTest,
  configOf,
  encryptionOf,
  globex,
  keys,
  route,
  startSidecar,
  targetOf,
} from '../support/sidecar.ts';
import { startUpstream } from '../support/upstream.ts';

const codes = Object.keys(refusals) as RefusalCode[];

/** The codes of the refusals that an encrypting account gets sealed on an enveloped route. */
const sealed: readonly RefusalCode[] = [
  'account_inactive',
  'key_not_permitted',
  'method_not_allowed',
  'body_too_large',
  'unsupported_content_encoding',
  'upstream_unavailable',
  'upstream_timeout',
  'internal_error',
];

/** An enveloped route with a single method. */
const routes = [route('/api/s2s/charge', { methods: ['POST'], envelope: true })];
const charge = 'POST /api/s2s/charge';
const envelope = envelopeOf(acmeTest, '{"amount":1}');

interface Merchant {
  readonly secret: string;
  readonly public: string;
}
const encrypting: Merchant = { secret: keys.acme, public: keys.acmePublic };
const plain: Merchant = { secret: keys.globex, public: keys.globexPublic };

type Setting = Parameters<typeof startGateway>[0];

async function responseTo(line: string, sent: Sent, setting: Setting = {}): Promise<Response> {
  const { sidecar } = await startGateway({ routes, ...setting });
  return send(sidecar, line, sent);
}

async function rawResponseTo(request: string, setting: Setting = {}): Promise<Response> {
  const { sidecar } = await startGateway({ routes, ...setting });
  const { status, headers, body } = parseOnly(await exchangeRaw(sidecar.port, request));
  return { status, headers, body, bytes: Buffer.from(body) };
}

/** The response of a gateway whose parts fail in ways that no configuration can cause. */
async function responseOver(find: KeyDirectory['find'], upstream: Upstream, sent: Sent): Promise<Response> {
  const config = configOf(nowhere.origin, { routes });
  const directory = { find, holds: () => true, serves: () => true };
  const snapshot = new GatewaySnapshot(config, new Map([['test', upstream]]));
  const silent = createLogger('silent', { write: () => {} });
  const proxy = new Proxy(
    snapshot,
    directory,
    silent,
    new TrafficRecorder(new Registry(), silent, Date.now, '0.0.0'),
    Date.now,
  );
  const timeouts = { headTimeout: 10_000, idleTimeout: 10_000, lingerTimeout: 2_000 };
  const { server } = new Listener(
    {
      limits: { maxHeadSize: 16_384, maxFields: 100, ...timeouts },
      tls: undefined,
      clock: Date.now,
    },
    (connection) => proxy.accept(connection),
  );
  onTestFinished(() => proxy.stop());
  return send({ port: await listen(server) }, charge, sent);
}

const nowhere = targetOf('http://127.0.0.1:1');

/** An upstream client that throws. */
class FaultyUpstream extends Upstream {
  override send(): never {
    throw new Error('core.internal:3000 has a fault');
  }
}

/** Makes the sidecar refuse a request to an enveloped route with each code, without mocks, for either merchant. */
const provoked: Record<RefusalCode, (merchant: Merchant) => Promise<Response>> = {
  missing_api_key: () => responseTo(charge, { body: envelope }),
  malformed_api_key: ({ secret }) => responseTo(charge, { key: `${secret}!`, body: envelope }),
  invalid_api_key: ({ secret }) => responseTo(charge, { key: `${secret}x`, body: envelope }),
  environment_mismatch: ({ secret }) => responseTo(charge, { key: secret.replace('test', 'live'), body: envelope }),
  key_not_permitted: (merchant) => responseTo(charge, { key: merchant.public, body: envelope }),
  account_inactive: ({ secret }) => {
    const accounts = [acme, globex].map((account) => Object.assign({ ...account }, { active: false }));
    return responseTo(charge, { key: secret, body: envelope }, { accounts });
  },
  method_not_allowed: ({ secret }) => responseTo('PUT /api/s2s/charge', { key: secret, body: envelope }),
  envelope_required: ({ secret }) => responseTo(charge, { key: secret, body: '{"amount":1}' }),
  envelope_malformed: ({ secret }) => responseTo(charge, { key: secret, body: '{"data":1}' }),
  decryption_failed: ({ secret }) => responseTo(charge, { key: secret, body: envelopeOf(acmeLive, '{"amount":1}') }),
  encryption_not_supported: ({ secret }) => responseTo('POST /api/v1/other', { key: secret, body: envelope }),
  unsupported_content_encoding: ({ secret }) =>
    responseTo(charge, { key: secret, body: envelope, headers: { 'content-encoding': 'gzip' } }),
  body_too_large: ({ secret }) => responseTo(charge, { key: secret, body: envelope }, { limits: { requestBody: 10 } }),
  ambiguous_request: ({ secret }) => responseTo('POST /api//s2s/charge', { key: secret, body: envelope }),
  malformed_request: () => rawResponseTo('POST /api/s2s/charge HTTP/1.1\r\nHost x\r\n\r\n'),
  invalid_cipher_test: ({ secret }) => responseTo('POST /api/s2s/aes-encrypt', { key: secret, body: envelope }),
  request_timeout: ({ secret }) =>
    rawResponseTo(`${charge} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\nContent-Length: 9\r\n\r\n{`, {
      timeouts: { request: 50 },
    }),
  unknown_host: ({ secret }) => responseTo(charge, { key: secret, body: envelope }, { serves: 'both' }),
  headers_too_large: ({ secret }) => responseTo(charge, { key: secret, headers: { 'x-long': 'x'.repeat(20_000) } }),
  too_many_attempts: async ({ secret }) => {
    const { sidecar } = await startGateway({ routes, limits: { failedKeys: { attempts: 1, window: 60_000 } } });
    const sent = { key: `${secret}x`, body: envelope };
    await send(sidecar, charge, sent);
    return send(sidecar, charge, sent);
  },
  overloaded: ({ secret }) => responseTo(charge, { key: secret, body: envelope }, { limits: { buffered: 10 } }),
  accounts_unavailable: ({ secret }) =>
    responseOver(() => 'unavailable', new Upstream(nowhere, 1_000, () => {}), {
      key: secret,
      body: envelope,
    }),
  upstream_unavailable: async ({ secret }) => {
    const sidecar = await startSidecar(configOf(nowhere.origin, { routes }));
    return send(sidecar, charge, { key: secret, body: envelope });
  },
  upstream_timeout: ({ secret }) =>
    responseTo(charge, { key: secret, body: envelope }, { timeouts: { upstream: 50 }, respond: () => {} }),
  sealing_failed: ({ secret }) =>
    responseTo(
      charge,
      { key: secret, body: envelope },
      { respond: (_, res) => res.writeHead(200, { 'Content-Encoding': 'gzip' }).end('not gzip') },
    ),
  internal_error: ({ secret }) => {
    const account = secret === keys.acme ? acme : globex;
    const [key] = account.keys;
    const upstream = new FaultyUpstream(nowhere, 1_000, () => {});
    return responseOver(() => key && { account, key }, upstream, {
      key: secret,
      body: envelope,
    });
  },
};

/** All headers that a refusal may have. */
const headers = new Set([
  'x-request-id',
  'content-type',
  'content-length',
  'cache-control',
  'date',
  'connection',
  'www-authenticate',
  'allow',
  'retry-after',
  'envelope',
  'envelope-content-type',
]);

function expectNothingTold(response: Response): void {
  expect(Object.keys(response.headers).filter((name) => !headers.has(name))).toEqual([]);
}

describe('an encrypting account on an enveloped route', () => {
  test.each(codes.filter((code) => sealed.includes(code)))('gets %s sealed', async (code) => {
    const response = await provoked[code](encrypting);
    expectSealedRefusal(acmeTest, response, code);
    expectNothingTold(response);
  });

  test.each(codes.filter((code) => !sealed.includes(code)))('gets %s in plain', async (code) => {
    const response = await provoked[code](encrypting);
    const { hint } = JSON.parse(response.body) as { hint?: string };
    expectPlainRefusal(response, code, hint);
    expectNothingTold(response);
  });

  test('gets a refusal without a body for HEAD', async () => {
    const { sidecar } = await startGateway({ routes });
    const response = await send(sidecar, 'HEAD /api/s2s/charge', { key: keys.acme });
    expect([response.status, response.body]).toEqual([405, '']);
    expect(response.headers).not.toHaveProperty('envelope');
    expect(sidecar.accessLines()[0]).toMatchObject({ code: 'method_not_allowed', bytes_out: 0 });
  });

  test('gets plain refusals on other routes', async () => {
    const response = await responseTo('GET /api/v1/other', { key: keys.acmePublic });
    expectPlainRefusal(response, 'key_not_permitted');
  });

  test('gets plain refusals in an environment in which it does not encrypt', async () => {
    const accounts = [{ ...acme, encryption: {} }];
    const response = await responseTo('PUT /api/s2s/charge', { key: keys.acme }, { accounts });
    expectPlainRefusal(response, 'method_not_allowed');
  });

  test('gets sealed refusals in the encoding of its account', async () => {
    const upstream = await startUpstream();
    const encryption = { test: encryptionOf(acmeTest, { encoding: 'base64' }) };
    const sidecar = await startSidecar(configOf(upstream.origin, { routes, accounts: [{ ...acme, encryption }] }));
    const response = await send(sidecar, 'PUT /api/s2s/charge', { key: keys.acme });
    expect(response.body).toMatch(/^\{"data":"[A-Za-z0-9+/]+=*"\}$/);
    expect(response.headers).toMatchObject({ envelope: 'sealed', allow: 'POST' });
  });
});

describe('with `documentation`, `type` is a link to it', () => {
  const documentation = 'https://docs.example/errors';
  const typeIn = (body: string): unknown => (JSON.parse(body) as { type: unknown }).type;

  test('in a plain refusal', async () => {
    const response = await responseTo(charge, { key: 'none' }, { documentation });
    expect(typeIn(response.body)).toBe('https://docs.example/errors#malformed_api_key');
  });

  test('in a sealed refusal', async () => {
    const response = await responseTo('PUT /api/s2s/charge', { key: keys.acme }, { documentation });
    expect(typeIn(opened(acmeTest, response))).toBe('https://docs.example/errors#method_not_allowed');
  });

  test('in a refusal of malformed bytes', async () => {
    const response = await rawResponseTo('GET / HTTP/1.1\r\nbad\r\n\r\n', { documentation });
    expect(typeIn(response.body)).toBe('https://docs.example/errors#malformed_request');
  });

  test('after a reload', async () => {
    const { sidecar, upstream } = await startGateway({ routes });
    sidecar.app.apply(configOf(upstream.origin, { routes, documentation }));
    const response = await send(sidecar, charge, { key: 'none' });
    expect(typeIn(response.body)).toBe('https://docs.example/errors#malformed_api_key');
  });
});

describe('an account that does not encrypt', () => {
  const forEnvelopes: readonly RefusalCode[] = ['body_too_large', 'unsupported_content_encoding'];

  test.each(sealed.filter((code) => !forEnvelopes.includes(code)))('gets %s in plain', async (code) => {
    expectPlainRefusal(await provoked[code](plain), code);
  });

  test.each(forEnvelopes)('never gets %s, because its bodies may be compressed and of any length', async (code) => {
    const response = await provoked[code](plain);
    expect([response.status, response.body]).toEqual([200, '{"ok":true}']);
  });
});

describe('texts outside ISO 8859-1 arrive whole', () => {
  const documentation = 'https://docs.example/支付/é/🔑';

  test('in a plain refusal, with the right length, on a connection that serves the next request', async () => {
    const { sidecar } = await startGateway({ documentation });
    const raw = await exchangeRaw(
      sidecar.port,
      ['GET /a HTTP/1.1', 'Host: x', '', 'GET /b HTTP/1.1', 'Host: x', 'Connection: close', '', ''].join('\r\n'),
    );
    const responses = parseResponses(raw);
    expect(responses).toHaveLength(2);
    for (const { body } of responses) {
      expect(JSON.parse(Buffer.from(body, 'latin1').toString())).toMatchObject({
        type: `${documentation}#missing_api_key`,
      });
    }
  });

  test('in a sealed refusal', async () => {
    const { sidecar } = await startGateway({ documentation, routes });
    const response = await send(sidecar, 'PUT /api/s2s/charge', { key: keys.acme });
    expect(JSON.parse(opened(acmeTest, response))).toMatchObject({ type: `${documentation}#method_not_allowed` });
  });

  test('in the refusal of bytes that are no request, and of a broken body', async () => {
    const { sidecar } = await startGateway({ documentation });
    const head = `POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${keys.globex}\r\n`;
    for (const bytes of ['no request\r\n\r\n', `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`]) {
      const { body } = parseOnly(await exchangeRaw(sidecar.port, bytes));
      expect(JSON.parse(Buffer.from(body, 'latin1').toString())).toMatchObject({
        type: `${documentation}#malformed_request`,
      });
    }
  });
});
