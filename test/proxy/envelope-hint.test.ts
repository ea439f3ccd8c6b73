import { describe, expect, test } from 'vitest';
import type { Account } from '../../src/accounts/account.ts';
import { encrypted, envelopeOf, opened, send, type Response, type Sent } from '../support/client.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { acme, acmeLive, acmeTest, codecOf, encryptionOf, keys, route } from '../support/sidecar.ts';

const routes = [route('/api/s2s/*', { envelope: true })];
const charge = 'POST /api/s2s/charge';
const document = '{"amount":1500}';
const inner = envelopeOf(acmeTest, document);
const until = Date.parse('2026-12-01T00:00:00Z');

type Setting = Parameters<typeof startGateway>[0];

/** Requests of `acme` that are accepted, but probably contain a slip. */
const slips: readonly (readonly [name: string, line: string, sent: Sent, hint: RegExp, forwarded: string])[] = [
  [
    'JSON that was serialised twice',
    charge,
    { body: envelopeOf(acmeTest, JSON.stringify(document)) },
    /serialised twice/,
    JSON.stringify(document),
  ],
  ['an envelope that was sealed twice', charge, { body: envelopeOf(acmeTest, inner) }, /sealed twice/, inner],
  [
    'a document that was wrapped before it was sealed',
    charge,
    { body: envelopeOf(acmeTest, `{"data":${document}}`) },
    /only "data"/,
    `{"data":${document}}`,
  ],
  [
    'a document that was padded twice',
    charge,
    { body: envelopeOf(acmeTest, `"abcde"${'\t'.repeat(9)}`) },
    /padded twice/,
    `"abcde"${'\t'.repeat(9)}`,
  ],
  ['a POST that lost its body', charge, {}, /^the POST arrived without a body/, ''],
  ['a POST with a length of 0', charge, { body: '' }, /^the POST arrived without a body/, ''],
  ['a PUT with an empty chunked body', 'PUT /api/s2s/charge', { chunked: true }, /^the PUT arrived without a body/, ''],
];

async function served(line: string, sent: Sent, setting: Setting = {}): Promise<{ response: Response; body: string }> {
  const { sidecar, upstream } = await startGateway({ routes, ...setting });
  const response = await send(sidecar, line, { key: keys.acme, ...sent });
  expect(upstream.heads()).toBe(1);
  return { response, body: upstream.seen[0]?.body ?? '' };
}

describe('in test, Envelope-Hint names what was accepted but is probably a slip', () => {
  test.each(slips)('%s', async (_, line, sent, hint, forwarded) => {
    const { response, body } = await served(line, sent);
    expect(response.headers['envelope-hint']).toMatch(hint);
    expect(response.headers['envelope-hint']).toMatch(/^[ -~]{1,200}$/);
    expect([response.status, opened(acmeTest, response), body]).toEqual([200, '{"ok":true}', forwarded]);
  });

  test('also in a plain response, of an account whose encryption is off', async () => {
    const accounts: Account[] = [{ ...acme, encryption: {} }];
    const { response, body } = await served(charge, { body: inner }, { accounts });
    expect(response.headers['envelope-hint']).toMatch(/^the body looks like an envelope, but encryption is off/);
    expect([response.headers['envelope'], response.body, body]).toEqual([undefined, '{"ok":true}', inner]);
  });

  test('also with the previous credentials during a grace period', async () => {
    const previous = { key: 'D3xR8nUq5WzK1pYc7LhT0vGb4MjS9fEa', iv: 'Pq8Wn2Lk5Xv3Zc7M' };
    const accounts = [acmeWith(encryptionOf(acmeTest, { grace: { previous: codecOf(previous), until } }))];
    const body = envelopeOf(previous, JSON.stringify(document));
    const { response } = await served(charge, { body }, { accounts, clock: () => until - 1 });
    expect(response.headers['envelope-hint']).toMatch(/serialised twice/);
  });

  test('also if the core then fails, because the slip may be the cause', async () => {
    const { response } = await served(
      charge,
      { body: envelopeOf(acmeTest, JSON.stringify(document)) },
      { respond: (_, res) => void res.socket?.destroy() },
    );
    expect(response.status).toBe(502);
    expect(response.headers['envelope-hint']).toMatch(/serialised twice/);
  });
});

describe('there is no Envelope-Hint', () => {
  test.each<[string, string, Sent]>([
    ['a document in an envelope', charge, { body: envelopeOf(acmeTest, document) }],
    ['a GET without a body', 'GET /api/s2s/transactions', {}],
    ['a DELETE without a body', 'DELETE /api/s2s/charge', {}],
    ['a POST without a body on a route without envelopes', 'POST /api/v1/x', {}],
    ['a document with "data" on a route without envelopes', 'POST /api/v1/x', { body: '{"data":{"amount":1}}' }],
  ])('for %s', async (_, line, sent) => {
    const { response } = await served(line, sent);
    expect(response.headers).not.toHaveProperty('envelope-hint');
  });

  test.each(slips)('in live, for %s', async (_, line, sent, hint, forwarded) => {
    const accounts = [{ ...acme, encryption: { live: encryptionOf(acmeTest) } }];
    const { response, body } = await served(line, { ...sent, key: keys.acmeLive }, { serves: 'live', accounts });
    expect(hint.source).not.toBe('');
    expect(body).toBe(forwarded);
    expect(response.headers).not.toHaveProperty('envelope-hint');
  });

  test('in live, for an envelope of an account whose encryption is off', async () => {
    const accounts: Account[] = [{ ...acme, encryption: {} }];
    const body = envelopeOf(acmeLive, document);
    const { response } = await served(charge, { key: keys.acmeLive, body }, { serves: 'live', accounts });
    expect(response.headers).not.toHaveProperty('envelope-hint');
  });

  test('from the core, because the header is the sidecar’s own', async () => {
    const { response } = await served(
      charge,
      { body: envelopeOf(acmeTest, document) },
      { respond: (_, res) => res.writeHead(200, { 'Envelope-Hint': 'x' }).end('{}') },
    );
    expect(response.headers).not.toHaveProperty('envelope-hint');
  });
});

describe('on the test endpoints', () => {
  const ask = async (path: string, body: string, setting: Setting = {}): Promise<Response> => {
    const { sidecar, upstream } = await startGateway({ routes, ...setting });
    const response = await send(sidecar, `POST /api/s2s/${path}`, { headers: acmeTest, body });
    expect([response.status, upstream.heads()]).toEqual([200, 0]);
    return response;
  };
  const hex = (plaintext: string): string => encrypted(acmeTest, plaintext).toString('hex');

  test.each([
    ['aes-encrypt', JSON.stringify({ encrypted_data: hex(document) }), /that member is for aes-decrypt/],
    ['aes-encrypt', JSON.stringify(document), /serialised twice/],
    ['aes-encrypt', inner, /sealed twice/],
    ['aes-decrypt', JSON.stringify({ encrypted_data: hex(JSON.stringify(document)) }), /serialised twice/],
    ['aes-decrypt', JSON.stringify({ encrypted_data: hex(inner) }), /sealed twice/],
  ])('it names a slip in what %s was given: %s', async (path, body, hint) => {
    expect((await ask(path, body)).headers['envelope-hint']).toMatch(hint);
    const setting: Setting = { serves: 'live', cipherTest: { environments: ['live'] } };
    expect((await ask(path, body, setting)).headers).not.toHaveProperty('envelope-hint');
  });

  test('it names quotes around the IV, which leave it long enough, and so does a refusal', async () => {
    const { sidecar } = await startGateway({ routes });
    const headers = { ...acmeTest, iv: `"${acmeTest.iv}"` };
    const sealed = await send(sidecar, 'POST /api/s2s/aes-encrypt', { headers, body: document });
    expect([sealed.status, sealed.headers['envelope-hint']]).toEqual([
      200,
      'the iv header is in quotes: remove the quotes',
    ]);
    const body = JSON.stringify({ encrypted_data: hex(document) });
    const refused = await send(sidecar, 'POST /api/s2s/aes-decrypt', { headers, body });
    expect(JSON.parse(refused.body)).toMatchObject({
      code: 'decryption_failed',
      hint: 'the iv header is in quotes: remove the quotes',
    });
  });

  test.each([
    ['aes-encrypt', document],
    ['aes-decrypt', JSON.stringify({ encrypted_data: hex(document) })],
  ])('there is none for an ordinary document: %s', async (path, body) => {
    expect((await ask(path, body)).headers).not.toHaveProperty('envelope-hint');
  });
});
