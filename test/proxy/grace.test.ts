import { describe, expect, test, vi } from 'vitest';
import type { Account, Grace } from '../../src/accounts/account.ts';
import type { RefusalCode } from '../../src/errors.ts';
import {
  envelopeOf,
  expectPlainRefusal,
  expectSealedRefusal,
  opened,
  send,
  type Response,
  type Sent,
} from '../support/client.ts';
import { openConnection, parseOnly } from '../support/connection.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { settle } from '../support/turns.ts';
import { scrape } from '../support/metrics.ts';
import {
  admin,
  acmeLive,
  acmeTest,
  configOf,
  codecOf,
  encryptionOf,
  keys,
  operatorsOf,
  route,
  startSidecar,
  type TestSidecar,
} from '../support/sidecar.ts';

const until = Date.parse('2026-12-01T00:00:00Z');
const during = (): number => until - 1;

const current = acmeTest;
const previous = { key: 'D3xR8nUq5WzK1pYc7LhT0vGb4MjS9fEa', iv: 'Pq8Wn2Lk5Xv3Zc7M' } as const;
const unknown = acmeLive;

const charge = 'POST /api/s2s/charge';
const plaintext = '{ "amount":  1.00 }';
const askForCurrent = { 'envelope-credentials': 'current' };

function acmeIn(grace: Grace): readonly Account[] {
  return [acmeWith(encryptionOf(current, { grace }))];
}
/** `acme` after a rotation, and after its encryption was enabled. */
const rotated = acmeIn({ previous: codecOf(previous), until });
const moving = acmeIn({ previous: undefined, until });

/** Expects a response that is sealed with these credentials, or plain, and the header that says so. */
function expectServed(response: Response, by: 'current' | 'previous' | 'none'): void {
  expect(response.headers['envelope-credentials']).toBe(by);
  expect(response.headers['envelope']).toBe(by === 'none' ? undefined : 'sealed');
  const credentials = { current, previous, none: undefined }[by];
  expect(credentials === undefined ? response.body : opened(credentials, response)).toBe('{"ok":true}');
}

describe('while the previous credentials are accepted, a response is sealed with those of its request', () => {
  test.each<[string, string, Sent, 'current' | 'previous']>([
    ['an envelope with the current ones', charge, { body: envelopeOf(current, plaintext) }, 'current'],
    ['an envelope with the previous ones', charge, { body: envelopeOf(previous, plaintext) }, 'previous'],
    [
      'an envelope with the previous ones, whatever the header asks for',
      charge,
      { body: envelopeOf(previous, plaintext), headers: askForCurrent },
      'previous',
    ],
    ['no body', 'GET /api/s2s/charge', {}, 'previous'],
    [
      'no body and a header that asks for the current ones',
      'GET /api/s2s/charge',
      { headers: askForCurrent },
      'current',
    ],
    [
      'no body and the header value in upper case',
      'GET /api/s2s/charge',
      { headers: { 'Envelope-Credentials': 'Current' } },
      'current',
    ],
    [
      'no body and a header that asks for none',
      'GET /api/s2s/charge',
      { headers: { 'envelope-credentials': 'none' } },
      'previous',
    ],
    ['a Content-Length of 0', charge, { body: '' }, 'previous'],
    [
      'an empty chunked body and a header that asks for the current ones',
      charge,
      { chunked: true, headers: askForCurrent },
      'current',
    ],
  ])('for %s', async (_, line, sent, by) => {
    const { sidecar, upstream } = await startGateway({ accounts: rotated, clock: during });
    expectServed(await send(sidecar, line, { key: keys.acme, ...sent }), by);
    expect(upstream.seen[0]?.body).toBe(sent.body === undefined || sent.body === '' ? '' : plaintext);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('envelope-credentials');
  });

  test('and so is a refusal, if the account was deactivated before the body was complete', async () => {
    const { sidecar, upstream } = await startGateway({ accounts: rotated, clock: during });
    const body = envelopeOf(current, plaintext);
    const head = ['POST /api/s2s/charge HTTP/1.1', 'Host: localhost', `Authorization: Bearer ${keys.acme}`];
    const client = await openConnection(sidecar.port);
    client.send([...head, `Content-Length: ${body.length}`, '', ''].join('\r\n'));
    await settle();
    const inactive = rotated.map((account) => ({ ...account, active: false }));
    sidecar.app.apply(configOf(upstream.origin, { accounts: inactive }));
    const response = parseOnly(await client.send(body).untilText('"}'));
    expect(response).toMatchObject({ status: 403, headers: { envelope: 'sealed', 'envelope-credentials': 'current' } });
    expect(JSON.parse(opened(current, { ...response, bytes: Buffer.from(response.body) }))).toMatchObject({
      code: 'account_inactive',
    });
    expect(upstream.heads()).toBe(0);
  });

  test.each<[string, RefusalCode, string]>([
    ['an envelope with unknown credentials', 'decryption_failed', envelopeOf(unknown, plaintext)],
    ['plaintext', 'envelope_required', plaintext],
    ['a malformed envelope', 'envelope_malformed', '{"data":1}'],
  ])('%s gets a plain refusal and is not forwarded', async (_, code, body) => {
    const { sidecar, upstream } = await startGateway({ accounts: rotated, clock: during });
    const response = await send(sidecar, charge, { key: keys.acme, body });
    const { hint } = JSON.parse(response.body) as { hint?: string };
    expectPlainRefusal(response, code, hint);
    expect(response.headers['envelope-credentials']).toBe('none');
    expect(upstream.heads()).toBe(0);
  });

  test('in the encoding of the account', async () => {
    const encryption = encryptionOf(current, {
      encoding: 'base64',
      grace: { previous: codecOf(previous, 'base64'), until },
    });
    const { sidecar } = await startGateway({ accounts: [acmeWith(encryption)], clock: during });
    const response = await send(sidecar, 'GET /api/s2s/charge', { key: keys.acme });
    expect(opened(previous, response, 'base64')).toBe('{"ok":true}');
  });

  test('and a response without a body has the header, too', async () => {
    const { sidecar } = await startGateway({
      accounts: rotated,
      clock: during,
      respond: (_, res) => res.writeHead(204).end(),
    });
    const response = await send(sidecar, charge, { key: keys.acme, body: envelopeOf(current, plaintext) });
    expect([response.status, response.headers['envelope'], response.headers['envelope-credentials']]).toEqual([
      204,
      undefined,
      'current',
    ]);
  });
});

describe('while plaintext is accepted, a response is sealed if its request was', () => {
  test.each<[string, string, Sent, 'current' | 'none']>([
    ['an envelope', charge, { body: envelopeOf(current, plaintext) }, 'current'],
    ['plaintext', charge, { body: plaintext }, 'none'],
    ['plaintext, whatever the header asks for', charge, { body: plaintext, headers: askForCurrent }, 'none'],
    ['plaintext in chunks', charge, { body: plaintext, chunked: true }, 'none'],
    ['plaintext with a member data beside others', charge, { body: '{"data":"x","amount":1}' }, 'none'],
    ['plaintext with a member data that is not a string', charge, { body: '{"data":{"amount":1}}' }, 'none'],
    ['plaintext that is not JSON', charge, { body: 'amount=1' }, 'none'],
    ['no body', 'GET /api/s2s/charge', {}, 'none'],
    [
      'no body and a header that asks for the current ones',
      'GET /api/s2s/charge',
      { headers: askForCurrent },
      'current',
    ],
  ])('for %s', async (_, line, sent, by) => {
    const { sidecar, upstream } = await startGateway({ accounts: moving, clock: during });
    expectServed(await send(sidecar, line, { key: keys.acme, ...sent }), by);
    expect(upstream.seen[0]?.body).toBe(by === 'current' && sent.body !== undefined ? plaintext : (sent.body ?? ''));
    expect(upstream.seen[0]?.headers).not.toHaveProperty('envelope-credentials');
  });

  test('and plaintext and its response keep their headers', async () => {
    const { sidecar, upstream } = await startGateway({
      accounts: moving,
      clock: during,
      respond: (_, res) =>
        res.writeHead(200, { ETag: '"x"', 'Content-Type': 'text/plain', 'Content-Length': 2 }).end('ok'),
    });
    const headers = { 'content-type': 'application/vnd.x+json', 'if-none-match': '"y"', 'accept-encoding': 'gzip' };
    const response = await send(sidecar, charge, { key: keys.acme, body: plaintext, headers });
    expect(upstream.seen[0]?.headers).toMatchObject({ ...headers, 'content-length': String(plaintext.length) });
    expect(response.headers).toMatchObject({ etag: '"x"', 'content-type': 'text/plain', 'content-length': '2' });
    expect(response.body).toBe('ok');
  });

  test('and a body with the shape of an envelope is not taken for plaintext', async () => {
    const { sidecar, upstream } = await startGateway({ accounts: moving, clock: during });
    for (const body of [envelopeOf(unknown, plaintext), '{"data":"amount"}']) {
      const response = await send(sidecar, charge, { key: keys.acme, body });
      expect(JSON.parse(response.body)).toMatchObject({ code: 'decryption_failed' });
      expect(response.headers['envelope-credentials']).toBe('none');
    }
    expect(upstream.heads()).toBe(0);
  });
});

describe('a refusal during a grace period', () => {
  const routes = [route('/api/s2s/charge', { methods: ['POST', 'GET'], envelope: true })];
  const inactive = rotated.map((account) => ({ ...account, active: false }));

  test.each<[RefusalCode, string, Sent, Parameters<typeof startGateway>[0]]>([
    ['account_inactive', charge, { key: keys.acme, body: 'x' }, { accounts: inactive }],
    ['key_not_permitted', charge, { key: keys.acmePublic, body: 'x' }, {}],
    ['method_not_allowed', 'DELETE /api/s2s/charge', { key: keys.acme }, {}],
    [
      'unsupported_content_encoding',
      charge,
      { key: keys.acme, body: 'x', headers: { 'content-encoding': 'gzip' } },
      {},
    ],
    ['body_too_large', charge, { key: keys.acme, body: 'x'.repeat(11) }, { limits: { requestBody: 10 } }],
    ['upstream_timeout', 'GET /api/s2s/charge', { key: keys.acme }, { timeouts: { upstream: 50 }, respond: () => {} }],
  ])(
    'is sealed with the previous credentials, or with the current ones on request: %s',
    async (code, line, sent, more) => {
      const { sidecar } = await startGateway({ routes, accounts: rotated, clock: during, ...more });
      const unasked = await send(sidecar, line, sent);
      expectSealedRefusal(previous, unasked, code);
      expect(unasked.headers['envelope-credentials']).toBe('previous');
      const asked = await send(sidecar, line, { ...sent, headers: { ...sent.headers, ...askForCurrent } });
      expectSealedRefusal(current, asked, code);
      expect(asked.headers['envelope-credentials']).toBe('current');
    },
  );

  test.each([
    ['current', current],
    ['previous', previous],
  ])('is sealed with the %s credentials if they opened the request', async (by, credentials) => {
    const sidecar = await startSidecar(configOf('http://127.0.0.1:1', { routes, accounts: rotated }), during);
    const response = await send(sidecar, charge, { key: keys.acme, body: envelopeOf(credentials, plaintext) });
    expectSealedRefusal(credentials, response, 'upstream_unavailable');
    expect(response.headers['envelope-credentials']).toBe(by);
  });

  test.each<[RefusalCode, string, Sent]>([
    ['key_not_permitted', charge, { key: keys.acmePublic, body: 'x' }],
    ['method_not_allowed', 'DELETE /api/s2s/charge', { key: keys.acme }],
    ['unsupported_content_encoding', charge, { key: keys.acme, body: 'x', headers: { 'content-encoding': 'gzip' } }],
  ])('is plain while plaintext is accepted, or sealed on request: %s', async (code, line, sent) => {
    const { sidecar } = await startGateway({ routes, accounts: moving, clock: during });
    const unasked = await send(sidecar, line, sent);
    expectPlainRefusal(unasked, code);
    expect(unasked.headers['envelope-credentials']).toBe('none');
    const asked = await send(sidecar, line, { ...sent, headers: { ...sent.headers, ...askForCurrent } });
    expectSealedRefusal(current, asked, code);
    expect(asked.headers['envelope-credentials']).toBe('current');
  });

  test('has no Envelope-Credentials before the account is known', async () => {
    const { sidecar } = await startGateway({ routes, accounts: rotated, clock: during });
    const response = await send(sidecar, charge, { key: `${keys.acme}x`, body: envelopeOf(current, plaintext) });
    expectPlainRefusal(response, 'invalid_api_key');
    expect(response.headers).not.toHaveProperty('envelope-credentials');
  });
});

describe('a grace period', () => {
  test.each([
    ['the previous credentials', rotated, envelopeOf(previous, plaintext), 'decryption_failed'],
    ['plaintext', moving, plaintext, 'envelope_required'],
  ] as const)('for %s ends at the configured millisecond', async (_, accounts, body, code) => {
    let now = until - 1;
    const { sidecar, upstream } = await startGateway({ accounts, clock: () => now });
    expect((await send(sidecar, charge, { key: keys.acme, body })).status).toBe(200);
    for (now of [until, until + 1]) {
      const response = await send(sidecar, charge, { key: keys.acme, body });
      expect(JSON.parse(response.body)).toMatchObject({ code });
      expect(response.headers).not.toHaveProperty('envelope-credentials');
    }
    expect(upstream.heads()).toBe(1);
  });

  test.each([
    ['the previous credentials', rotated],
    ['plaintext', moving],
  ])(
    'for %s leaves only the current credentials when it is over, whatever the header asks for',
    async (_, accounts) => {
      const { sidecar, upstream } = await startGateway({ accounts, clock: () => until });
      const requests: readonly (readonly [string, Sent])[] = [
        [charge, { body: envelopeOf(current, plaintext) }],
        ['GET /api/s2s/charge', {}],
        ['GET /api/s2s/charge', { headers: askForCurrent }],
      ];
      for (const [line, sent] of requests) {
        const response = await send(sidecar, line, { key: keys.acme, ...sent });
        expect(opened(current, response)).toBe('{"ok":true}');
        expect(response.headers).not.toHaveProperty('envelope-credentials');
      }
      expect(upstream.seen.map(({ headers }) => headers['envelope-credentials'])).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    },
  );

  test('adds no header on routes without envelopes', async () => {
    const { sidecar, upstream } = await startGateway({ accounts: rotated, clock: during });
    const response = await send(sidecar, 'GET /api/v1/balance', { key: keys.acme, headers: askForCurrent });
    expect(response.headers).not.toHaveProperty('envelope-credentials');
    expect(upstream.seen[0]?.headers).not.toHaveProperty('envelope-credentials');
  });
});

describe('after encryption was disabled with a grace period', () => {
  const ending = [acmeWith({ type: 'ending', previous: codecOf(previous), until })];

  test.each<[string, string, Sent, 'previous' | 'none']>([
    ['an envelope is opened, and its response sealed', charge, { body: envelopeOf(previous, plaintext) }, 'previous'],
    [
      'an envelope gets a sealed response, whatever the header asks for',
      charge,
      { body: envelopeOf(previous, plaintext), headers: askForCurrent },
      'previous',
    ],
    ['plaintext gets a plain response', charge, { body: plaintext }, 'none'],
    ['no body gets a sealed response', 'GET /api/s2s/charge', {}, 'previous'],
    [
      'no body and a header that asks for current credentials get a plain response',
      'GET /api/s2s/charge',
      { headers: askForCurrent },
      'none',
    ],
  ])('%s', async (_, line, sent, by) => {
    const { sidecar, upstream } = await startGateway({ accounts: ending, clock: during });
    expectServed(await send(sidecar, line, { key: keys.acme, ...sent }), by);
    expect(upstream.seen[0]?.body).toBe(sent.body === undefined ? '' : plaintext);
    expect(upstream.seen[0]?.headers).not.toHaveProperty('envelope-credentials');
  });

  test('an envelope that does not open is refused and not forwarded', async () => {
    const { sidecar, upstream } = await startGateway({ accounts: ending, clock: during });
    const response = await send(sidecar, charge, { key: keys.acme, body: envelopeOf(current, plaintext) });
    expect(JSON.parse(response.body)).toMatchObject({ code: 'decryption_failed' });
    expect(upstream.heads()).toBe(0);
  });

  test('an envelope on a route without envelopes is refused and not forwarded', async () => {
    const { sidecar, upstream } = await startGateway({ accounts: ending, clock: during });
    const body = envelopeOf(previous, plaintext);
    const response = await send(sidecar, 'POST /api/v1/refunds', { key: keys.acme, body });
    expect(JSON.parse(response.body)).toMatchObject({ code: 'encryption_not_supported' });
    expect(upstream.heads()).toBe(0);
  });

  test('a refusal is sealed, or plain on request', async () => {
    const accounts = ending.map((account) => ({ ...account, active: false }));
    const { sidecar } = await startGateway({ accounts, clock: during });
    expectSealedRefusal(previous, await send(sidecar, charge, { key: keys.acme }), 'account_inactive');
    expectPlainRefusal(await send(sidecar, charge, { key: keys.acme, headers: askForCurrent }), 'account_inactive');
  });

  test('the account counts as one without encryption from the millisecond at which the grace period ends', async () => {
    let now = until - 1;
    const { sidecar, upstream } = await startGateway({ accounts: ending, clock: () => now });
    const body = envelopeOf(previous, plaintext);
    expectServed(await send(sidecar, charge, { key: keys.acme, body }), 'previous');
    for (now of [until, until + 1]) {
      for (const sent of [{ body }, { body: plaintext }]) {
        const response = await send(sidecar, charge, { key: keys.acme, ...sent });
        expect(response.body).toBe('{"ok":true}');
        expect(response.headers).not.toHaveProperty('envelope');
        expect(response.headers).not.toHaveProperty('envelope-credentials');
        expect(upstream.seen.at(-1)?.body).toBe(sent.body);
      }
    }
  });
});

test('a grace period ends at a wall-clock time: if the clock is set back, the period runs again until that time', async () => {
  let now = until - 1;
  const { sidecar } = await startGateway({ accounts: rotated, clock: () => now });
  const status = async (): Promise<number> =>
    (await send(sidecar, charge, { key: keys.acme, body: envelopeOf(previous, plaintext) })).status;
  expect(await status()).toBe(200);
  now = until - 3_600_000;
  expect(await status()).toBe(200);
  now = until;
  expect(await status()).toBe(400);
  now = until - 3_600_000;
  expect(await status()).toBe(200);
});

describe('the use of a grace period', () => {
  const routes = [route('/api/s2s/charge', { methods: ['POST', 'GET'], envelope: true })];
  const samples = async (sidecar: TestSidecar): Promise<string[]> =>
    [...(await scrape(sidecar)).matchAll(/^envelope_sidecar_grace_requests_total\{.*\} [1-9].*$/gm)].map(
      ([line]) => line,
    );

  /** The keys that still depend on a grace period, according to the operators' API. */
  async function graceUses(sidecar: TestSidecar): Promise<unknown> {
    const { port } = sidecar.app.addresses.operators ?? { port: 0 };
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/activity`, {
      headers: { Authorization: 'Bearer token-of-ana-token-of-ana-token-of' },
    });
    return ((await response.json()) as { grace_uses: unknown }).grace_uses;
  }

  const operators = operatorsOf([admin('ana', 'token-of-ana-token-of-ana-token-of')]);

  test.each<[RefusalCode, string, Sent, Parameters<typeof startGateway>[0]]>([
    ['key_not_permitted', charge, { key: keys.acmePublic, body: envelopeOf(previous, plaintext) }, {}],
    ['method_not_allowed', 'DELETE /api/s2s/charge', { key: keys.acme }, {}],
    ['body_too_large', charge, { key: keys.acme, body: 'x'.repeat(11) }, { limits: { requestBody: 10 } }],
    ['decryption_failed', charge, { key: keys.acme, body: envelopeOf(unknown, plaintext) }, {}],
    ['envelope_malformed', charge, { key: keys.acme, body: '{"data":1}' }, {}],
    ['upstream_timeout', 'GET /api/s2s/charge', { key: keys.acme }, { timeouts: { upstream: 50 }, respond: () => {} }],
    [
      'upstream_timeout',
      charge,
      { key: keys.acme, body: envelopeOf(previous, plaintext) },
      { timeouts: { upstream: 50 }, respond: () => {} },
    ],
  ])('is not counted anywhere for a refused request: %s', async (code, line, sent, more) => {
    const { sidecar } = await startGateway({ routes, accounts: rotated, clock: during, operators, ...more });
    await send(sidecar, line, sent);
    await vi.waitFor(() => expect(sidecar.accessLines()).toMatchObject([{ code }]));
    expect(await samples(sidecar)).toEqual([]);
    expect(await graceUses(sidecar)).toEqual([]);
  });

  test('is counted everywhere for a request that is served', async () => {
    const { sidecar } = await startGateway({ routes, accounts: rotated, clock: during, operators });
    await send(sidecar, charge, { key: keys.acme, body: envelopeOf(previous, plaintext) });
    await vi.waitFor(async () =>
      expect(await samples(sidecar)).toEqual([
        'envelope_sidecar_grace_requests_total{environment="test",credentials="previous"} 1',
      ]),
    );
    expect(await graceUses(sidecar)).toMatchObject([{ account: 'acme' }]);
  });

  test('does not include plaintext after encryption was disabled, because the merchant has changed over', async () => {
    const accounts = [acmeWith({ type: 'ending', previous: codecOf(previous), until })];
    const { sidecar } = await startGateway({ routes, accounts, clock: during, operators });
    await send(sidecar, charge, { key: keys.acme, body: plaintext });
    await vi.waitFor(async () =>
      expect(await samples(sidecar)).toEqual([
        'envelope_sidecar_grace_requests_total{environment="test",credentials="current"} 1',
      ]),
    );
    expect(await graceUses(sidecar)).toEqual([]);
    await send(sidecar, charge, { key: keys.acme, body: envelopeOf(previous, plaintext) });
    await vi.waitFor(async () => expect(await graceUses(sidecar)).toMatchObject([{ account: 'acme' }]));
  });
});
