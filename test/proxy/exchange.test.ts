import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { RefusalCode } from '../../src/errors.ts';
import {
  encrypted,
  envelopeOf,
  expectPlainRefusal,
  expectSealedRefusal,
  opened,
  send,
  type Sent,
} from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { exchangeRaw, parseOnly } from '../support/connection.ts';
import { request } from '../support/refused.ts';
import { acme, acmeLive, acmeTest, encryptionOf, globex, keys } from '../support/sidecar.ts';

const charge = 'POST /api/s2s/charge';
/** JSON that parsing and serialising would change. */
const plaintext = Buffer.from(
  '{ "amount":  1000.00,\r\n\t"amount": 12345678901234567890.10, "note": "caf\\u00e9 é €", "n": 2 }\n',
);
const ciphertext = encrypted(acmeTest, plaintext);
const hex = ciphertext.toString('hex');
const base64 = ciphertext.toString('base64');
/** The envelope of a string. */
function envelope(data: string): string {
  return JSON.stringify({ data });
}

/** The envelope of bytes that already include their padding. */
function blocks(padded: string): string {
  return envelope(encrypted(acmeTest, Buffer.from(padded, 'latin1'), '-nopad').toString('hex'));
}

test('the base64 in these tests contains both characters in which the alphabets of base64 differ', () => {
  expect(base64).toMatch(/\/.*\+|\+.*\//);
});

describe('an envelope is opened, and its plaintext is forwarded byte for byte', () => {
  test.each([
    ['hex', envelope(hex)],
    ['base64 with its slashes escaped, as PHP writes it', envelope(base64).replaceAll('/', '\\/')],
    ['white space between its tokens', `\r\n { "data" :\t"${hex}" }\n`],
  ])('if it has %s', async (_, body) => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, charge, { key: keys.acme, body });
    expect(opened(acmeTest, response)).toBe('{"ok":true}');
    expect(Buffer.from(upstream.seen[0]?.body ?? '', 'latin1')).toEqual(plaintext);
    expect(upstream.seen[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(plaintext.length),
    });
    expect(sidecar.accessLines()[0]).not.toHaveProperty('reason');
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS', 'PROPFIND'])('if the method is %s', async (method) => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, `${method} /api/s2s/charge?a=b`, { key: keys.acme, body: envelope(hex) });
    expect(opened(acmeTest, response)).toBe('{"ok":true}');
    expect(upstream.seen[0]).toMatchObject({
      method,
      url: '/api/s2s/charge?a=b',
      body: plaintext.toString('latin1'),
    });
  });

  test('if the method is HEAD', async () => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, 'HEAD /api/s2s/charge', { key: keys.acme, body: envelope(hex) });
    expect(response.status).toBe(200);
    expect(upstream.seen[0]).toMatchObject({ method: 'HEAD', body: plaintext.toString('latin1') });
  });

  test('if it is chunked and has another Content-Type', async () => {
    const { sidecar, upstream } = await startGateway();
    const headers = { 'content-type': 'text/plain; charset=iso-8859-1' };
    await send(sidecar, charge, { key: keys.acme, body: envelope(hex), chunked: true, headers });
    expect(upstream.seen[0]?.body).toBe(plaintext.toString('latin1'));
    expect(upstream.seen[0]?.headers).toMatchObject({ 'content-type': 'application/json' });
    expect(upstream.seen[0]?.headers).not.toHaveProperty('transfer-encoding');
  });

  test('if its Content-Encoding is identity', async () => {
    const { sidecar, upstream } = await startGateway();
    const headers = { 'content-encoding': 'Identity' };
    await send(sidecar, charge, { key: keys.acme, body: envelope(hex), headers });
    expect(upstream.seen[0]?.body).toBe(plaintext.toString('latin1'));
    expect(upstream.seen[0]?.headers).not.toHaveProperty('content-encoding');
  });

  test('only with the credentials of its environment', async () => {
    const { sidecar, upstream } = await startGateway({ serves: 'both' });
    const headers = { host: 'api.pay.example' };
    const sent = { key: keys.acmeLive, headers, body: envelopeOf(acmeLive, '{"live":1}') };
    expect(opened(acmeLive, await send(sidecar, charge, sent))).toBe('{"ok":true}');
    expect(upstream.seen[0]?.body).toBe('{"live":1}');
    const withTest = { ...sent, body: envelope(hex) };
    expectPlainRefusal(await send(sidecar, charge, withTest), 'decryption_failed');
  });
});

describe('a request with an empty body or none', () => {
  test.each<[string, string, Sent]>([
    ['GET', 'GET', {}],
    ['GET with a Content-Length of 0', 'GET', { body: '' }],
    ['GET with an empty chunked body', 'GET', { chunked: true }],
    ['GET with a Content-Type', 'GET', { headers: { 'content-type': 'application/json' } }],
    ['DELETE', 'DELETE', {}],
    ['POST with a Content-Length of 0', 'POST', { body: '' }],
    ['POST with an empty chunked body', 'POST', { chunked: true }],
  ])('is forwarded, and the response is sealed: %s', async (_, method, sent) => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, `${method} /api/s2s/charges/1?x=%20`, { key: keys.acme, ...sent });
    expect(opened(acmeTest, response)).toBe('{"ok":true}');
    expect(upstream.seen[0]).toMatchObject({ method, url: '/api/s2s/charges/1?x=%20', body: '' });
  });
});

/**
 * Bodies that cannot be opened: a name, the body, the code and the logged reason. test/envelope covers all of them, and
 * refusal-texts.test.ts covers their hints in test.
 */
const causes: readonly [string, string | Buffer, RefusalCode, string | undefined][] = [
  ['plaintext', '{"amount":1000}', 'envelope_required', undefined],
  ['an envelope in an array', `[${envelope(hex)}]`, 'envelope_required', undefined],
  ['null', 'null', 'envelope_required', undefined],
  ['a form', `data=${hex}`, 'envelope_malformed', undefined],
  ['a byte order mark', `\ufeff${envelope(hex)}`, 'envelope_malformed', undefined],
  ['bytes that are not UTF-8', Buffer.from('{"data":"\xe9"}', 'latin1'), 'envelope_malformed', undefined],
  ['data that is not a string', '{"data":{"amount":1}}', 'envelope_malformed', undefined],
  ['data twice', `{"data":"${hex}","data":"${hex}"}`, 'envelope_malformed', undefined],
  ['an odd number of digits', envelope(hex.slice(1)), 'decryption_failed', 'encoding'],
  ['an empty string', envelope(''), 'decryption_failed', 'length'],
  ['fifteen bytes', envelope(hex.slice(0, 30)), 'decryption_failed', 'length'],
  ['base64 of hex', envelope(Buffer.from(hex).toString('base64')), 'decryption_failed', 'padding'],
  ['other credentials', envelopeOf(acmeLive, '{}'), 'decryption_failed', 'padding'],
  ['a padding of zero', blocks(`{"amount": 10.0}${'\0'.repeat(16)}`), 'decryption_failed', 'padding'],
  ['a plaintext that is not JSON', envelopeOf(acmeTest, 'amount=1000'), 'decryption_failed', 'not_json'],
  ['an empty plaintext', envelopeOf(acmeTest, ''), 'decryption_failed', 'not_json'],
];

describe('a body that cannot be opened gets a plain refusal and is not forwarded', () => {
  test.each(['envelope_required', 'envelope_malformed', 'decryption_failed'] as const)(
    'in live with the same bytes for every cause of %s, which only the log distinguishes',
    async (code) => {
      // Use the credentials of test in live, so that the same envelopes fail for the same reasons.
      const accounts = [{ ...acme, encryption: { live: encryptionOf(acmeTest) } }];
      const { sidecar, upstream } = await startGateway({
        serves: 'live',
        accounts,
        limits: { failedKeys: { attempts: 1_000, window: 60_000 } },
      });
      const ofCode = causes.filter(([, , each]) => each === code);
      const responses = new Set<string>();
      for (const [, body] of ofCode) {
        const bytes = Buffer.from(body).toString('latin1');
        const head = request(
          'POST /api/s2s/charge HTTP/1.1',
          'Host: localhost',
          'Connection: close',
          `Authorization: Bearer ${keys.acmeLive}`,
          'X-Request-Id: same',
          `Content-Length: ${bytes.length}`,
        );
        const raw = await exchangeRaw(sidecar.port, head + bytes);
        responses.add(raw.replace(/\r\nDate: [^\r]*/, ''));
      }
      expect([...responses]).toHaveLength(1);
      const { body, headers } = parseOnly([...responses][0] ?? '');
      expect(JSON.parse(body)).toMatchObject({ code, request_id: 'same' });
      expect(JSON.parse(body)).not.toHaveProperty('hint');
      expect(headers).not.toHaveProperty('envelope');
      expect(upstream.heads()).toBe(0);
      expect(sidecar.accessLines().map(({ account, reason }) => [account, reason])).toEqual(
        ofCode.map(([, , , reason]) => ['acme', reason]),
      );
    },
  );
});

describe('a compressed body', () => {
  test.each([
    ['gzip', gzipSync(envelope(hex))],
    ['br', Buffer.from('x')],
    ['gzip, identity', Buffer.from('x')],
    ['x-unheard-of', Buffer.from(envelope(hex))],
  ])('gets a sealed refusal and is not forwarded: %s', async (coding, body) => {
    const { sidecar, upstream } = await startGateway();
    const response = await send(sidecar, charge, { key: keys.acme, body, headers: { 'content-encoding': coding } });
    expectSealedRefusal(acmeTest, response, 'unsupported_content_encoding');
    expect(upstream.heads()).toBe(0);
  });
});

describe('the head of the request to the upstream', () => {
  test('asks for the whole response, uncompressed and unconditionally', async () => {
    const { sidecar, upstream } = await startGateway();
    const conditional = ['If-Match', 'If-None-Match', 'If-Range', 'If-Modified-Since', 'If-Unmodified-Since'];
    const headers = {
      'Accept-Encoding': 'gzip, br',
      Range: 'bytes=0-9',
      'If-Schedule-Tag-Match': '"x"',
      If_None_Match: '"x"',
      ...Object.fromEntries(conditional.map((name) => [name, '"x"'])),
    };
    await send(sidecar, 'GET /api/s2s/charges', { key: keys.acme, headers });
    const seen = upstream.seen[0]?.headers ?? {};
    expect(seen['accept-encoding']).toBe('identity');
    expect(Object.keys(seen).filter((name) => /^if|range/.test(name))).toEqual([]);
  });

  test('lacks the headers that describe the envelope and not its plaintext', async () => {
    const { sidecar, upstream } = await startGateway();
    const digests = ['Digest', 'Content-Digest', 'Repr-Digest', 'Content-MD5', 'ETag'];
    const headers = { 'Content-Type': 'text/plain', ...Object.fromEntries(digests.map((name) => [name, 'x'])) };
    await send(sidecar, charge, { key: keys.acme, body: envelope(hex), headers });
    const names = Object.keys(upstream.seen[0]?.headers ?? {});
    expect(names.filter((name) => /digest|md5|etag/.test(name))).toEqual([]);
    expect(upstream.seen[0]?.headers['content-type']).toBe('application/json');
  });

  test('keeps the headers that also fit the plaintext', async () => {
    const { sidecar, upstream } = await startGateway();
    const headers = { 'Idempotency-Key': 'k1', 'Accept-Language': 'de', Accept: 'application/json', Cookie: 'a=b' };
    await send(sidecar, charge, { key: keys.acme, body: envelope(hex), headers });
    expect(upstream.seen[0]?.headers).toMatchObject({
      'idempotency-key': 'k1',
      'accept-language': 'de',
      accept: 'application/json',
      cookie: 'a=b',
      'x-account-id': 'acme',
    });
  });
});

describe('traffic is forwarded unchanged in both directions', () => {
  const inLiveOnly = { ...acme, encryption: { live: encryptionOf(acmeLive) } };
  const compressed = gzipSync('{"ok": true}');
  const said = {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Encoding': 'gzip',
    'Content-Length': String(compressed.length),
    ETag: '"a"',
    Digest: 'sha-256=x',
    'Content-MD5': 'x',
    'Accept-Ranges': 'bytes',
    'Set-Cookie': ['a=1', 'b=2'],
  };
  const asked = {
    'Accept-Encoding': 'gzip, br',
    Range: 'bytes=0-',
    'If-None-Match': '"b"',
    'If-Schedule-Tag-Match': '"c"',
    'Content-Type': 'application/vnd.x+json',
    'Content-Digest': 'sha-256=:x:',
  };

  test.each([
    ['an account without encryption', charge, keys.globex, [globex]],
    ['an account with encryption in the other environment only', charge, keys.acme, [inLiveOnly]],
    ['an account with encryption on a route without envelopes', 'POST /api/v1/refunds', keys.acme, [acme]],
  ])('for %s', async (_, line, key, accounts) => {
    const { sidecar, upstream } = await startGateway({
      accounts,
      respond: (_seen, res) => res.writeHead(206, said).end(compressed),
    });
    const response = await send(sidecar, line, { key, headers: asked, body: plaintext });
    expect(Buffer.from(upstream.seen[0]?.body ?? '', 'latin1')).toEqual(plaintext);
    const lower = (headers: object): object =>
      Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value as unknown]));
    expect(upstream.seen[0]?.headers).toMatchObject(lower(asked));
    expect(response.status).toBe(206);
    expect(response.bytes).toEqual(compressed);
    expect(response.headers).toMatchObject(lower(said));
    expect(response.headers).not.toHaveProperty('envelope');
  });

  test('for an account without encryption, whatever its body is', async () => {
    const { sidecar, upstream } = await startGateway();
    for (const body of ['x', '{"data":1}', envelope(hex), '']) {
      const response = await send(sidecar, charge, { key: keys.globex, body });
      expect([response.status, response.body]).toEqual([200, '{"ok":true}']);
    }
    expect(upstream.seen.map(({ body }) => body)).toEqual(['x', '{"data":1}', envelope(hex), '']);
  });
});
