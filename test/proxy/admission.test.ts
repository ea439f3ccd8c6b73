import { describe, expect, test } from 'vitest';
import type { Account } from '../../src/accounts/account.ts';
import type { RefusalCode } from '../../src/errors.ts';
import { expectPlainRefusal, send } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { apiKey, globex, keys, route } from '../support/sidecar.ts';

const now = Date.parse('2026-11-20T12:00:00Z');

/** A secret test key with this many characters after its prefix. */
function keyOf(length: number, character = 'x'): string {
  return `sk_test_${character.repeat(length)}`;
}

/** `globex`, which does not encrypt, with other keys. */
function globexWith(...held: Account['keys']): Account {
  return { ...globex, keys: held };
}

async function expectRefused(authorization: string | undefined, code: RefusalCode, accounts = [globex]): Promise<void> {
  const { sidecar, upstream } = await startGateway({ accounts, clock: () => now });
  const headers = authorization === undefined ? {} : { authorization };
  expectPlainRefusal(await send(sidecar, 'POST /api/v1/refunds', { headers, body: '{"amount":1}' }), code);
  expect(upstream.heads()).toBe(0);
}

async function expectAdmitted(authorization: string, accounts = [globex]): Promise<void> {
  const { sidecar, upstream } = await startGateway({ accounts, clock: () => now });
  const response = await send(sidecar, 'POST /api/v1/refunds', { headers: { authorization }, body: '{"amount":1}' });
  expect(response.status).toBe(200);
  expect(upstream.seen).toHaveLength(1);
}

describe('the Authorization header', () => {
  test('is required: a request without it is refused as missing_api_key', () =>
    expectRefused(undefined, 'missing_api_key'));

  test.each([
    ['an empty header', ''],
    ['the scheme alone', 'Bearer'],
    ['the scheme and a space', 'Bearer '],
    ['a key without a scheme', keys.globex],
    ['no space after the scheme', `Bearer${keys.globex}`],
    ['a tab after the scheme', `Bearer\t${keys.globex}`],
    ['another scheme', `Basic ${keys.globex}`],
    ['a longer scheme', `Bearers ${keys.globex}`],
    ['15 characters after the prefix', `Bearer ${keyOf(15)}`],
    ['201 characters after the prefix', `Bearer ${keyOf(201)}`],
    ['a prefix of another kind', `Bearer rk_test_${'x'.repeat(24)}`],
    ['a prefix of another environment', `Bearer sk_prod_${'x'.repeat(24)}`],
    ['a prefix in capitals', `Bearer SK_TEST_${'x'.repeat(24)}`],
    ['no prefix', `Bearer ${'x'.repeat(24)}`],
    ['a character that keys do not have', `Bearer ${keyOf(23)}.`],
    ['a word before the scheme', `x Bearer ${keys.globex}`],
    ['a word after the key', `Bearer ${keys.globex} x`],
    ['a comma after the key', `Bearer ${keys.globex},`],
    ['a key in quotes', `Bearer "${keys.globex}"`],
  ])('is refused as malformed_api_key: %s', (_, authorization) => expectRefused(authorization, 'malformed_api_key'));

  test.each([
    ['16 characters after the prefix', keyOf(16)],
    ['200 characters after the prefix', keyOf(200)],
    ['every kind of character', 'sk_test_AZaz09_-AZaz09_-'],
  ])('may have %s: the key is looked up', async (_, key) => {
    await expectAdmitted(`Bearer ${key}`, [globexWith(apiKey(key))]);
    await expectRefused(`Bearer ${key}`, 'invalid_api_key');
  });

  test.each([
    ['the scheme in lower case', `bearer ${keys.globex}`],
    ['the scheme in capitals', `BEARER ${keys.globex}`],
    ['the scheme in any case', `bEaReR ${keys.globex}`],
    ['two spaces', `Bearer  ${keys.globex}`],
    ['twenty spaces', `Bearer${' '.repeat(20)}${keys.globex}`],
    ['spaces around it', `  Bearer ${keys.globex}  `],
  ])('may have %s', (_, authorization) => expectAdmitted(authorization));
});

describe('an API key', () => {
  test.each([
    ['an unknown key', keyOf(24)],
    ['a known key in another letter case', keys.globex.replace('globex', 'GLOBEX')],
    ['a known key and a character', `${keys.globex}x`],
    ['a known key without its last character', keys.globex.slice(0, -1)],
  ])('is refused as invalid_api_key: %s', (_, key) => expectRefused(`Bearer ${key}`, 'invalid_api_key'));

  test('is valid until the millisecond before it expires', async () => {
    const at = (expiresAt: number): Account => globexWith(apiKey(keys.globex, { expiresAt }));
    await expectAdmitted(`Bearer ${keys.globex}`, [at(now + 1)]);
    await expectRefused(`Bearer ${keys.globex}`, 'invalid_api_key', [at(now)]);
    await expectRefused(`Bearer ${keys.globex}`, 'invalid_api_key', [at(now - 1)]);
  });

  test.each([-1, 0, 1, 120_000])('is refused if its revocation is %i ms from now, because clocks differ', (later) =>
    expectRefused(`Bearer ${keys.globex}`, 'invalid_api_key', [
      globexWith(apiKey(keys.globex, { revokedAt: now + later })),
    ]),
  );

  test('is refused from the millisecond it expires, without a reload', async () => {
    let time = now - 1;
    const accounts = [globexWith(apiKey(keys.globex, { expiresAt: now }))];
    const { sidecar, upstream } = await startGateway({ accounts, clock: () => time });
    expect((await send(sidecar, 'GET /api/v1/refunds', { key: keys.globex })).status).toBe(200);
    time = now;
    expectPlainRefusal(await send(sidecar, 'GET /api/v1/refunds', { key: keys.globex }), 'invalid_api_key');
    expect(upstream.heads()).toBe(1);
  });

  test.each([
    ['of a public key', 'pk_test_', keys.globex],
    ['of a secret key', 'sk_test_', keys.globexPublic],
    ['of a live key', 'sk_live_', keys.globex],
  ] as const)('is refused as invalid_api_key if its hash is stored with the prefix %s', (_, prefix, key) =>
    expectRefused(`Bearer ${key}`, 'invalid_api_key', [globexWith(apiKey(key, { prefix }))]),
  );

  test('may be one of several valid keys, and the upstream gets the id of the one that was sent', async () => {
    let time = now - 1;
    const overlap = [apiKey(keyOf(24, 'a'), { id: 'old', expiresAt: now }), apiKey(keyOf(24, 'b'), { id: 'new' })];
    const { sidecar, upstream } = await startGateway({ accounts: [globexWith(...overlap)], clock: () => time });
    const statusOf = async (character: string): Promise<number> =>
      (await send(sidecar, 'GET /api/v1/refunds', { key: keyOf(24, character) })).status;
    expect([await statusOf('a'), await statusOf('b')]).toEqual([200, 200]);
    time = now;
    expect([await statusOf('a'), await statusOf('b')]).toEqual([401, 200]);
    expect(upstream.seen.map(({ headers }) => headers['x-api-key-id'])).toEqual(['old', 'new', 'new']);
    expect(upstream.seen.map(({ headers }) => headers['x-account-id'])).toEqual(['globex', 'globex', 'globex']);
  });

  test('never appears in the log', async () => {
    const { sidecar } = await startGateway();
    for (const key of [keys.globex, keys.acmeLive, keyOf(24), keyOf(201)]) {
      await send(sidecar, 'GET /api/v1/refunds', { key });
    }
    expect(sidecar.accessLines().map(({ code }) => code)).toEqual([
      undefined,
      'environment_mismatch',
      'invalid_api_key',
      'malformed_api_key',
    ]);
    expect(JSON.stringify(sidecar.log)).not.toMatch(/[ps]k_(?:test|live)_[A-Za-z0-9_]{16}/);
  });
});

describe('the environment', () => {
  const sandbox = { host: 'sandbox.pay.example' };
  const production = { host: 'api.pay.example:443' };

  test.each([
    ['a live key', sandbox, keys.acmeLive],
    ['an unknown live key', sandbox, `sk_live_${'x'.repeat(24)}`],
    ['an unknown public live key', sandbox, `pk_live_${'x'.repeat(24)}`],
    ['a test key', production, keys.globex],
    ['an unknown test key', production, keyOf(24)],
    ['a public test key', production, keys.globexPublic],
  ])('of %s must match the host, whether or not the key is known', async (_, host, key) => {
    const { sidecar, upstream } = await startGateway({ serves: 'both' });
    const response = await send(sidecar, 'POST /api/v1/transactions/initialize', { headers: host, key, body: '{}' });
    expectPlainRefusal(response, 'environment_mismatch');
    expect(upstream.heads()).toBe(0);
  });

  test('of a key is checked only if the key is well formed', async () => {
    const { sidecar } = await startGateway({ serves: 'both' });
    const response = await send(sidecar, 'GET /', { headers: sandbox, key: `sk_live_${'x'.repeat(15)}` });
    expectPlainRefusal(response, 'malformed_api_key');
  });

  test.each([
    ['test', sandbox, keys.globex],
    ['live', production, keys.acmeLive],
  ])('%s admits its own keys and is named in X-Environment', async (environment, host, key) => {
    const { sidecar, upstream } = await startGateway({ serves: 'both' });
    expect((await send(sidecar, 'GET /api/v1/refunds', { headers: host, key })).status).toBe(200);
    expect(upstream.seen[0]?.headers).toMatchObject({ 'x-environment': environment, ...host });
  });

  test.each(['pay.example', 'x.sandbox.pay.example', 'sandbox.pay.example.', '127.0.0.1'])(
    'is unknown for the host %s, which is refused',
    async (host) => {
      const { sidecar, upstream } = await startGateway({ serves: 'both' });
      const response = await send(sidecar, 'GET /', { headers: { host }, key: keys.globex });
      expectPlainRefusal(response, 'unknown_host');
      expect(upstream.heads()).toBe(0);
    },
  );

  test.each(['SANDBOX.Pay.Example', 'sandbox.pay.example:8080'])('is found for the host %s', async (host) => {
    const { sidecar, upstream } = await startGateway({ serves: 'both' });
    expect((await send(sidecar, 'GET /', { headers: { host }, key: keys.globex })).status).toBe(200);
    expect(upstream.seen[0]?.headers.host).toBe(host);
  });
});

describe('the kind of a key', () => {
  const routes = [
    route('/both', { keys: ['public', 'secret'] }),
    route('/public', { keys: ['public'] }),
    route('/secret', { keys: ['secret'] }),
  ];

  test.each([
    ['GET /both', 200, 200],
    ['GET /public', 200, 200],
    ['GET /secret', 403, 200],
    ['GET /unlisted', 403, 200],
    ['GET /', 403, 200],
    ['GET /both/below', 403, 200],
    ['GET /BOTH/', 200, 200],
  ])('decides on %s: %i for a public key, %i for a secret key', async (line, publicStatus, secretStatus) => {
    const { sidecar, upstream } = await startGateway({ routes });
    const forPublic = await send(sidecar, line, { key: keys.globexPublic });
    const forSecret = await send(sidecar, line, { key: keys.globex });
    expect([forPublic.status, forSecret.status]).toEqual([publicStatus, secretStatus]);
    for (const response of [forPublic, forSecret])
      if (response.status === 403) expectPlainRefusal(response, 'key_not_permitted');
    expect(upstream.heads()).toBe([forPublic, forSecret].filter(({ status }) => status === 200).length);
  });

  test('reaches the upstream in X-Api-Key-Kind', async () => {
    const { sidecar, upstream } = await startGateway({ routes });
    await send(sidecar, 'GET /both', { key: keys.globexPublic });
    await send(sidecar, 'GET /both', { key: keys.globex });
    expect(upstream.seen.map(({ headers }) => headers['x-api-key-kind'])).toEqual(['public', 'secret']);
  });
});

describe('the method', () => {
  const routes = [
    route('/pay', { methods: ['POST'], keys: ['public'] }),
    route('/pay', { methods: ['GET'] }),
    route('/any'),
  ];

  test.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'])(
    '%s is refused on a path that lists other methods, and Allow lists them',
    async (method) => {
      const { sidecar, upstream } = await startGateway({ routes });
      const response = await send(sidecar, `${method} /pay`, { key: keys.globex });
      expectPlainRefusal(response, 'method_not_allowed');
      expect(response.headers.allow).toBe('POST, GET, HEAD');
      expect(upstream.heads()).toBe(0);
    },
  );

  test.each(['GET', 'POST', 'PUT', 'OPTIONS', 'PROPFIND'])(
    '%s is allowed on a path without listed methods',
    async (method) => {
      const { sidecar, upstream } = await startGateway({ routes });
      expect((await send(sidecar, `${method} /any`, { key: keys.globex })).status).toBe(200);
      expect(upstream.seen[0]?.method).toBe(method);
    },
  );

  test('is checked only after the key', async () => {
    const { sidecar } = await startGateway({ routes });
    expectPlainRefusal(await send(sidecar, 'PUT /pay', { key: keyOf(24) }), 'invalid_api_key');
    expectPlainRefusal(await send(sidecar, 'PUT /pay'), 'missing_api_key');
  });
});

describe('an inactive account', () => {
  const inactive = { ...globex, active: false };

  test.each([
    ['a secret key', 'POST /api/v1/refunds', keys.globex],
    ['a public key', 'POST /api/v1/transactions/initialize', keys.globexPublic],
    ['a key that may not be used here', 'POST /api/v1/refunds', keys.globexPublic],
    ['a method that is not allowed here', 'PUT /api/v1/transactions/initialize', keys.globex],
  ])('is refused with %s', async (_, line, key) => {
    const { sidecar, upstream } = await startGateway({ accounts: [inactive] });
    expectPlainRefusal(await send(sidecar, line, { key, body: '{}' }), 'account_inactive');
    expect(upstream.heads()).toBe(0);
    expect(sidecar.accessLines()[0]).toMatchObject({ account: 'globex', code: 'account_inactive', status: 403 });
  });

  test('is revealed only to a valid key', () => {
    const expired = { ...inactive, keys: [apiKey(keys.globex, { expiresAt: now })] };
    return expectRefused(`Bearer ${keys.globex}`, 'invalid_api_key', [expired]);
  });
});
