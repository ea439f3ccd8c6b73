import { describe, expect, test } from 'vitest';
import type { Account } from '../../src/accounts/account.ts';
import { encrypted, envelopeOf, expectPlainRefusal, opened, send, type Response } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { acme, acmeLive, acmeTest, apiKey, keys, route, type TestSidecar } from '../support/sidecar.ts';

/** The default number of failed attempts that are allowed. */
const allowed = 20;

/** A well-formed key that belongs to no account. */
const guess = (i: number): string => `sk_test_guess${String(i).padStart(16, '0')}`;

function expectTooManyAttempts(response: Response): void {
  expectPlainRefusal(response, 'too_many_attempts');
  const seconds = Number(response.headers['retry-after']);
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(60);
}

describe('unknown API keys', () => {
  /** Sends `count` guesses, one after another, with `client` as `X-Forwarded-For`. */
  async function guesses(sidecar: TestSidecar, count: number, client?: string): Promise<Response[]> {
    const headers = client === undefined ? {} : { 'X-Forwarded-For': client };
    const responses: Response[] = [];
    for (let i = 0; i < count; i += 1) {
      responses.push(await send(sidecar, 'GET /api/v1/transactions', { key: guess(i), headers }));
    }
    return responses;
  }

  test('are refused as invalid_api_key 20 times in a minute, then as too_many_attempts with the time to wait', async () => {
    const { sidecar, upstream } = await startGateway();
    for (const response of await guesses(sidecar, allowed)) expectPlainRefusal(response, 'invalid_api_key');
    for (const response of await guesses(sidecar, 2)) expectTooManyAttempts(response);
    expect(upstream.heads()).toBe(0);
  });

  test('do not delay a valid key from the same address', async () => {
    const { sidecar } = await startGateway();
    await guesses(sidecar, allowed + 1);
    expect((await send(sidecar, 'GET /api/v1/transactions', { key: keys.globex })).status).toBe(200);
  });

  test('include known keys that have expired', async () => {
    const expired: Account = { ...acme, keys: [apiKey(keys.acme, { expiresAt: 1 })] };
    const { sidecar } = await startGateway({
      accounts: [expired],
      limits: { failedKeys: { attempts: 1, window: 60_000 } },
    });
    const request = (): Promise<Response> => send(sidecar, 'GET /api/v1/transactions', { key: keys.acme });
    expectPlainRefusal(await request(), 'invalid_api_key');
    expectTooManyAttempts(await request());
  });

  test('are the only ones counted: a missing key, a malformed one and one of the other environment are not', async () => {
    const { sidecar } = await startGateway({ limits: { failedKeys: { attempts: 1, window: 60_000 } } });
    for (let i = 0; i < 3; i += 1) {
      expectPlainRefusal(await send(sidecar, 'GET /'), 'missing_api_key');
      expectPlainRefusal(await send(sidecar, 'GET /', { key: 'sk_test_short' }), 'malformed_api_key');
      expectPlainRefusal(await send(sidecar, 'GET /', { key: keys.acmeLive }), 'environment_mismatch');
    }
    const [first, second] = await guesses(sidecar, 2);
    expect([first?.status, second?.status]).toEqual([401, 429]);
  });

  test('count on the test endpoints, too', async () => {
    const { sidecar } = await startGateway({ limits: { failedKeys: { attempts: 1, window: 60_000 } } });
    const { key, iv } = acmeTest;
    const request = (): Promise<Response> =>
      send(sidecar, 'POST /api/s2s/aes-encrypt', { key: guess(1), headers: { key, iv }, body: '{}' });
    expectPlainRefusal(await request(), 'invalid_api_key');
    expectTooManyAttempts(await request());
  });

  test('count against the peer if it is not a trusted proxy, because any client can send X-Forwarded-For', async () => {
    const { sidecar } = await startGateway();
    const responses: Response[] = [];
    for (let i = 0; i < allowed + 1; i += 1) responses.push(...(await guesses(sidecar, 1, `203.0.113.${i}`)));
    for (const response of responses.slice(0, allowed)) expectPlainRefusal(response, 'invalid_api_key');
    expect(responses.at(-1)?.status).toBe(429);
  });

  test('count against each client behind a trusted proxy, however its address is written', async () => {
    const { sidecar } = await startGateway({ trustedProxies: ['127.0.0.0/8'] });
    await guesses(sidecar, allowed / 2, '198.51.100.1, 2001:db8::7');
    await guesses(sidecar, allowed / 2, '[2001:DB8:0:0:1::8]:443');
    const [limited] = await guesses(sidecar, 1, '198.51.100.99, 2001:db8::9');
    const [other] = await guesses(sidecar, 1, '2001:db8:0:1::7');
    expect([limited?.status, other?.status]).toEqual([429, 401]);
  });
});

describe('envelopes that do not open', () => {
  const secondKey = 'sk_live_acmesecondacmesecond';
  const accounts = [{ ...acme, keys: [...acme.keys, apiKey(secondKey, { id: 'acme-second' })] }];
  const bad = JSON.stringify({ data: encrypted(acmeTest, '{"amount":1}').toString('hex') });
  const good = envelopeOf(acmeLive, '{"amount":1}');
  const charge = (sidecar: TestSidecar, key: string, body: string): Promise<Response> =>
    send(sidecar, 'POST /api/s2s/charge', { key, body });

  test('in live are refused as decryption_failed 20 times in a minute for an API key; then none of its envelopes is opened', async () => {
    const { sidecar, upstream } = await startGateway({ serves: 'live', accounts });
    for (let i = 0; i < allowed; i += 1) {
      expectPlainRefusal(await charge(sidecar, keys.acmeLive, bad), 'decryption_failed');
    }
    expectTooManyAttempts(await charge(sidecar, keys.acmeLive, bad));
    expectTooManyAttempts(await charge(sidecar, keys.acmeLive, good));
    expect(upstream.heads()).toBe(0);

    // Requests without an envelope are still served, and so are requests with other keys, even those of the same account.
    const list = await send(sidecar, 'GET /api/s2s/transactions', { key: keys.acmeLive });
    expect(opened(acmeLive, list)).toBe('{"ok":true}');
    expect(opened(acmeLive, await charge(sidecar, secondKey, good))).toBe('{"ok":true}');
  });

  test('in live with a public key are refused as too_many_attempts only beyond the limit: an envelope that opens always passes', async () => {
    const publicKey = 'pk_live_acmeacmeacmeacmeacmeacme';
    const { sidecar, upstream } = await startGateway({
      serves: 'live',
      accounts: [{ ...acme, keys: [...acme.keys, apiKey(publicKey)] }],
      routes: [route('/api/s2s/*', { envelope: true, keys: ['public', 'secret'] })],
      limits: { failedKeys: { attempts: 2, window: 60_000 } },
    });
    for (let i = 0; i < 2; i += 1) expectPlainRefusal(await charge(sidecar, publicKey, bad), 'decryption_failed');
    for (let i = 0; i < 3; i += 1) {
      expectTooManyAttempts(await charge(sidecar, publicKey, bad));
      expectPlainRefusal(await charge(sidecar, publicKey, '{"data":1}'), 'envelope_malformed');
      expect(opened(acmeLive, await charge(sidecar, publicKey, good))).toBe('{"ok":true}');
    }
    expect(upstream.heads()).toBe(3);
    // Failures with the public key do not count against a secret key of the account.
    expectPlainRefusal(await charge(sidecar, keys.acmeLive, bad), 'decryption_failed');
  });

  test('in live count only if decryption fails: a body that is not an envelope is not an attempt', async () => {
    const { sidecar } = await startGateway({
      serves: 'live',
      accounts,
      limits: { failedKeys: { attempts: 1, window: 60_000 } },
    });
    for (const body of ['{"amount":1}', '{"data":1}', '[]']) await charge(sidecar, keys.acmeLive, body);
    expectPlainRefusal(await charge(sidecar, keys.acmeLive, bad), 'decryption_failed');
    expectTooManyAttempts(await charge(sidecar, keys.acmeLive, bad));
  });

  test('in test are never limited, because their hints reveal as much', async () => {
    const { sidecar } = await startGateway({ accounts, limits: { failedKeys: { attempts: 1, window: 60_000 } } });
    const unreadable = JSON.stringify({ data: 'abc' });
    for (let i = 0; i < 3; i += 1) {
      expectPlainRefusal(await charge(sidecar, keys.acme, unreadable), 'decryption_failed', 'odd number of hex digits');
    }
    const response = await charge(sidecar, keys.acme, envelopeOf(acmeTest, '{"amount":1}'));
    expect(opened(acmeTest, response)).toBe('{"ok":true}');
  });
});
