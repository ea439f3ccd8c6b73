import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Account, Encryption } from '../../src/accounts/account.ts';
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
import { acmeWith, startGateway } from '../support/gateway.ts';
import { acme, acmeLive, acmeTest, codecOf, encryptionOf, keys, route } from '../support/sidecar.ts';

const until = Date.parse('2026-12-01T00:00:00Z');
const createdAt = Date.parse('2026-11-01T00:00:00Z');

const current = acmeTest;
const previous = { key: 'D3xR8nUq5WzK1pYc7LhT0vGb4MjS9fEa', iv: 'Pq8Wn2Lk5Xv3Zc7M' } as const;

/** The fingerprint of credentials, computed without the sidecar's code. */
function fingerprintOf({ key, iv }: { readonly key: string; readonly iv: string }): string {
  const bytes = Buffer.concat([Buffer.from(key), Buffer.from(iv.slice(0, 16))]);
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
const prints = {
  current: fingerprintOf(current),
  previous: fingerprintOf(previous),
  unknown: fingerprintOf(acmeLive),
} as const;
const named = (print: string): Record<string, string> => ({ 'Envelope-Credentials': print });

const pairs = { current, previous } as const;
type Pair = keyof typeof pairs;

const plaintext = '{"amount":1}';
const charge = 'POST /api/s2s/charge';
const list = 'GET /api/s2s/charge';
const routes = [route('/api/s2s/charge', { methods: ['POST', 'GET'], envelope: true })];

const steady = encryptionOf(current);
const rotated: Encryption = encryptionOf(current, { grace: { previous: codecOf(previous), until } });
const moving: Encryption = encryptionOf(current, { grace: { previous: undefined, until } });
const ending: Encryption = { type: 'ending', previous: codecOf(previous), until };
const withCreation: Encryption = { ...steady, createdAt };

type Setting = NonNullable<Parameters<typeof startGateway>[0]>;

const during = until - 1;

/** Sends one request from `acme`. `seen` is the number of requests that reached the upstream. */
async function ask(
  encryption: Encryption,
  line: string,
  sent: Sent,
  { now = during, ...setting }: Setting & { readonly now?: number } = {},
): Promise<{ response: Response; seen: number }> {
  const accounts: readonly Account[] = [acmeWith(encryption)];
  const { sidecar, upstream } = await startGateway({ routes, accounts, clock: () => now, ...setting });
  const response = await send(sidecar, line, { key: keys.acme, ...sent });
  for (const { headers } of upstream.seen) expect(headers).not.toHaveProperty('envelope-credentials');
  return { response, seen: upstream.heads() };
}

/** Requests without a body, and with an empty one. */
const unopened: readonly (readonly [name: string, line: string, sent: Sent])[] = [
  ['a request without a body', list, {}],
  ['a request with a length of 0', charge, { body: '' }],
  ['a request with an empty chunked body', charge, { chunked: true }],
];

/** Sealed refusals of requests whose body is not opened. */
const refusals: readonly (readonly [code: RefusalCode, line: string, sent: Sent, setting: Setting])[] = [
  [
    'unsupported_content_encoding',
    charge,
    { body: envelopeOf(previous, plaintext), headers: { 'Content-Encoding': 'gzip' } },
    {},
  ],
  ['body_too_large', charge, { body: 'x'.repeat(11) }, { limits: { requestBody: 10 } }],
  ['body_too_large', charge, { body: 'x'.repeat(11), chunked: true }, { limits: { requestBody: 10 } }],
  ['key_not_permitted', charge, { key: keys.acmePublic, body: envelopeOf(previous, plaintext) }, {}],
  ['key_not_permitted', list, { key: keys.acmePublic }, {}],
  ['method_not_allowed', 'DELETE /api/s2s/charge', {}, {}],
  ['account_inactive', list, {}, {}],
];

describe.each(['current', 'previous'] as const)('in a grace period, the fingerprint of the %s credentials', (pair) => {
  test.each(unopened)('gets a response sealed with them: %s', async (_, line, sent) => {
    const { response, seen } = await ask(rotated, line, { ...sent, headers: named(prints[pair]) });
    expect(opened(pairs[pair], response)).toBe('{"ok":true}');
    expect([response.headers['envelope-credentials'], seen]).toEqual([pair, 1]);
  });

  test.each(refusals)('gets a refusal sealed with them: %s, %s', async (code, line, sent, setting) => {
    const accounts = [{ ...acmeWith(rotated), active: code !== 'account_inactive' }];
    const headers = { ...sent.headers, ...named(prints[pair]) };
    const { response, seen } = await ask(rotated, line, { ...sent, headers }, { ...setting, accounts });
    expectSealedRefusal(pairs[pair], response, code);
    expect([response.headers['envelope-credentials'], seen]).toEqual([pair, 0]);
  });

  test.each(['current', 'previous'] as Pair[])(
    'does not matter if a body was opened: then its %s credentials do',
    async (by) => {
      const body = envelopeOf(pairs[by], plaintext);
      const { response } = await ask(rotated, charge, { body, headers: named(prints[pair]) });
      expect(opened(pairs[by], response)).toBe('{"ok":true}');
      expect(response.headers['envelope-credentials']).toBe(by);
    },
  );

  test('may be in upper case', async () => {
    const { response } = await ask(rotated, list, { headers: named(prints[pair].toUpperCase()) });
    expect(opened(pairs[pair], response)).toBe('{"ok":true}');
  });
});

describe('outside a grace period, the fingerprint of the credentials', () => {
  test.each(unopened)('changes nothing: %s', async (_, line, sent) => {
    const { response, seen } = await ask(steady, line, { ...sent, headers: named(prints.current) });
    expect(opened(current, response)).toBe('{"ok":true}');
    expect(response.headers).not.toHaveProperty('envelope-credentials');
    expect(seen).toBe(1);
  });

  test('changes nothing for an envelope', async () => {
    const sent = { body: envelopeOf(current, plaintext), headers: named(prints.current) };
    expect(opened(current, (await ask(steady, charge, sent)).response)).toBe('{"ok":true}');
  });

  test.each(refusals)('changes nothing for a sealed refusal: %s, %s', async (code, line, sent, setting) => {
    const accounts = [{ ...acmeWith(steady), active: code !== 'account_inactive' }];
    const headers = { ...sent.headers, ...named(prints.current) };
    const { response, seen } = await ask(steady, line, { ...sent, headers }, { ...setting, accounts });
    expectSealedRefusal(current, response, code);
    expect(seen).toBe(0);
  });
});

const whole = [
  ...unopened,
  ['an envelope that would open', charge, { body: envelopeOf(current, plaintext) }] as const,
  ...refusals
    .filter(([code]) => code !== 'account_inactive')
    .map(([code, line, sent]) => [`a request that would be refused: ${code}`, line, sent] as const),
];

describe('a fingerprint of neither pair is refused in plain, right after the key, and nothing is forwarded', () => {
  const hint = (since: string): string =>
    `Envelope-Credentials has the fingerprint of credentials other than the account's${since}: compare the fingerprints`;

  test.each(whole)('during a grace period: %s', async (_, line, sent) => {
    const headers = { ...sent.headers, ...named(prints.unknown) };
    const { response, seen } = await ask(rotated, line, { ...sent, headers });
    expectPlainRefusal(response, 'decryption_failed', hint(''));
    expect([response.headers['envelope-credentials'], seen]).toEqual(['none', 0]);
  });

  test.each(whole)('outside a grace period, with the credentials’ creation in the hint: %s', async (_, line, sent) => {
    const headers = { ...sent.headers, ...named(prints.unknown) };
    const { response, seen } = await ask(withCreation, line, { ...sent, headers });
    expectPlainRefusal(response, 'decryption_failed', hint(', created at 2026-11-01T00:00:00Z'));
    expect(seen).toBe(0);
  });

  test('also that of the previous pair from the millisecond at which the grace period ends', async () => {
    const sent = { headers: named(prints.previous) };
    expect((await ask(rotated, list, sent)).response.status).toBe(200);
    for (const now of [until, until + 1]) {
      const { response, seen } = await ask(rotated, list, sent, { now });
      expectPlainRefusal(response, 'decryption_failed', hint(''));
      expect([response.headers['envelope-credentials'], seen]).toEqual([undefined, 0]);
    }
  });

  test('without a hint in live', async () => {
    const accounts = [{ ...acme, encryption: { live: withCreation } }];
    const { sidecar, upstream } = await startGateway({ routes, accounts, serves: 'live' });
    const response = await send(sidecar, list, { key: keys.acmeLive, headers: named(prints.unknown) });
    expectPlainRefusal(response, 'decryption_failed');
    expect(upstream.heads()).toBe(0);
  });

  test('and is logged with its own reason', async () => {
    const { sidecar } = await startGateway({ routes, accounts: [acmeWith(steady)] });
    await send(sidecar, list, { key: keys.acme, headers: named(prints.unknown) });
    expect(sidecar.accessLines()).toMatchObject([
      { code: 'decryption_failed', reason: 'fingerprint', account: 'acme' },
    ]);
  });

  test('but not before the API key is known to be valid', async () => {
    const { response } = await ask(steady, list, { key: `${keys.acme}x`, headers: named(prints.unknown) });
    expectPlainRefusal(response, 'invalid_api_key');
  });
});

describe('any other value means the previous credentials', () => {
  test.each([
    'none',
    'previous',
    prints.current.slice(1),
    `${prints.current}0`,
    `"${prints.current}"`,
    'x'.repeat(16),
    '',
  ])('%j', async (value) => {
    const graced = await ask(rotated, list, { headers: named(value) });
    expect(opened(previous, graced.response)).toBe('{"ok":true}');
    const { response } = await ask(steady, list, { headers: named(value) });
    expect(opened(current, response)).toBe('{"ok":true}');
  });
});

describe('during a grace period for plaintext, the fingerprint', () => {
  test.each(unopened)('gets a sealed response, which would be plain without it: %s', async (_, line, sent) => {
    expect((await ask(moving, line, sent)).response.body).toBe('{"ok":true}');
    const { response } = await ask(moving, line, { ...sent, headers: named(prints.current) });
    expect(opened(current, response)).toBe('{"ok":true}');
    expect(response.headers['envelope-credentials']).toBe('current');
  });

  test('does not matter for plaintext, which gets a plain response', async () => {
    const { response } = await ask(moving, charge, { body: plaintext, headers: named(prints.current) });
    expect([response.body, response.headers['envelope-credentials']]).toEqual(['{"ok":true}', 'none']);
  });

  test.each(refusals)('gets a sealed refusal: %s, %s', async (code, line, sent, setting) => {
    const accounts = [{ ...acmeWith(moving), active: code !== 'account_inactive' }];
    const headers = { ...sent.headers, ...named(prints.current) };
    const { response } = await ask(moving, line, { ...sent, headers }, { ...setting, accounts });
    expectSealedRefusal(current, response, code);
  });
});

describe('after encryption was disabled with a grace period, the fingerprint', () => {
  test('of the credentials gets a response sealed with them', async () => {
    const { response } = await ask(ending, list, { headers: named(prints.previous) });
    expect(opened(previous, response)).toBe('{"ok":true}');
  });

  test('of other credentials is refused', async () => {
    const { response, seen } = await ask(ending, list, { headers: named(prints.unknown) });
    expect([JSON.parse(response.body), seen]).toMatchObject([{ code: 'decryption_failed' }, 0]);
  });

  test('does not matter when the grace period is over', async () => {
    const { response } = await ask(ending, list, { headers: named(prints.unknown) }, { now: until });
    expect(response.body).toBe('{"ok":true}');
  });
});

describe('a fingerprint does not matter', () => {
  test('on a route without envelopes', async () => {
    const { response } = await ask(rotated, 'GET /api/v1/balance', { headers: named(prints.unknown) });
    expect(response.body).toBe('{"ok":true}');
  });

  test('for an account that does not encrypt', async () => {
    const { sidecar } = await startGateway({ routes });
    const response = await send(sidecar, list, { key: keys.globex, headers: named(prints.unknown) });
    expect(response.body).toBe('{"ok":true}');
  });
});
