import { Cipheriv } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { JsonReader } from '../../src/envelope/json/json-reader.ts';
import { MemberReader } from '../../src/envelope/json/members.ts';
import { sliceLength } from '../../src/slices.ts';
import type { RefusalCode } from '../../src/errors.ts';
import {
  decrypted,
  encrypted,
  envelopeOf,
  expectPlainRefusal,
  opened,
  send,
  type Response,
  type Sent,
} from '../support/client.ts';
import { openConnection } from '../support/connection.ts';
import { startGateway } from '../support/gateway.ts';
import { request } from '../support/refused.ts';
import { acme, acmeLive, acmeTest, globex, keys, route } from '../support/sidecar.ts';
import { onEachResponse, turnsOfResponses } from '../support/turns.ts';

const encrypt = '/api/s2s/aes-encrypt';
const decrypt = '/api/s2s/aes-decrypt';

/** Routes that cover the test endpoints and require envelopes and secret keys, although the endpoints require neither. */
const routes = [route('/api/s2s/*', { envelope: true }), route(encrypt, { methods: ['GET'], envelope: true })];

async function responseTo(
  path: string,
  sent: Sent,
  setting: Parameters<typeof startGateway>[0] = {},
): Promise<Response> {
  const { sidecar, upstream } = await startGateway({ routes, ...setting });
  const response = await send(sidecar, `POST ${path}`, sent);
  expect(upstream.heads()).toBe(0);
  return response;
}

function hexOf(bytes: Buffer): string {
  return JSON.stringify({ encrypted_data: bytes.toString('hex') });
}

test.each(['key', 'iv'])('two %s headers are refused, even if either would do', async (name) => {
  const value = acmeTest[name as 'key' | 'iv'];
  for (const path of [encrypt, decrypt]) {
    const response = await responseTo(path, { headers: { ...acmeTest, [name]: [value, value] }, body: '{}' });
    expectPlainRefusal(response, 'ambiguous_request');
    expect(JSON.parse(response.body)).toMatchObject({ hint: `there are two ${name} headers: send one` });
  }
});

describe('aes-encrypt', () => {
  test.each([
    [
      'white space between tokens is removed',
      ' { "amount" :\t1000 ,\r\n "items" : [ 1 , 2 ] }\n',
      '{"amount":1000,"items":[1,2]}',
    ],
    ['white space in strings is kept', '{"note": " a \\" b\\\\" }', '{"note":" a \\" b\\\\"}'],
    ['escapes are kept', '["caf\\u00e9","\\/","é"]', '["caf\\u00e9","\\/","é"]'],
  ])('encrypts the minified document: %s', async (_, document, minified) => {
    const response = await responseTo(encrypt, { headers: acmeTest, body: document });
    expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
    const data = /^\{"data":"([0-9a-f]+)"\}$/.exec(response.body)?.[1] ?? '';
    expect(decrypted(acmeTest, Buffer.from(data, 'hex')).toString()).toBe(minified);
    expect(data).toBe(encrypted(acmeTest, minified).toString('hex'));
  });
});

describe('aes-decrypt', () => {
  test.each([
    ['an object with its white space', '{ "amount": 1000.00 }\n'],
    ['letters outside ASCII', '{"note":"é €"}'],
  ])('returns the document byte for byte: %s', async (_, document) => {
    const body = hexOf(encrypted(acmeTest, document));
    const response = await responseTo(decrypt, { headers: acmeTest, body });
    expect([response.status, response.headers['content-type'], response.body]).toEqual([
      200,
      'application/json',
      document,
    ]);
  });

  test('accepts upper-case hex, white space and other members', async () => {
    const data = encrypted(acmeTest, '{}').toString('hex').toUpperCase();
    const response = await responseTo(decrypt, { headers: acmeTest, body: `{ "x": 1, "encrypted_data": "${data}" }` });
    expect(response.body).toBe('{}');
  });

  test.each([
    ['{}', 'the body has no "encrypted_data" string'],
    ['[]', 'the body has no "encrypted_data" string'],
    ['null', 'the body has no "encrypted_data" string'],
    ['"encrypted_data"', 'the body is a JSON string: send {"encrypted_data":"<ciphertext>"}'],
    ['{"encrypted_data":1}', '"encrypted_data" must be a string: the ciphertext in hex or base64'],
    ['{"encrypted_data":null}', '"encrypted_data" must be a string: the ciphertext in hex or base64'],
    ['{"data":"00"}', 'the member must be named "encrypted_data" here; "data" is for envelopes'],
    ['{"encryptedData":"00"}', 'the member must be named "encrypted_data", in lower case and with an underscore'],
    ['{"ENCRYPTED_DATA":"00"}', 'the member must be named "encrypted_data", in lower case and with an underscore'],
  ])('refuses a body without a string in encrypted_data: %s', async (body, hint) => {
    const response = await responseTo(decrypt, { headers: acmeTest, body });
    expectPlainRefusal(response, 'invalid_cipher_test', hint);
  });

  test('reverses aes-encrypt', async () => {
    const response = await responseTo(encrypt, { headers: acmeTest, body: '{"amount":1}' });
    const { data } = JSON.parse(response.body) as { data: string };
    const undone = await responseTo(decrypt, { headers: acmeTest, body: JSON.stringify({ encrypted_data: data }) });
    expect(undone.body).toBe('{"amount":1}');
  });
});

describe('the key and iv headers', () => {
  const keyHint = 'the key header must be 32 bytes of UTF-8';
  const ivHint = 'the iv header must be 16 bytes of UTF-8 in its first 16 characters';
  const { key, iv } = acmeTest;

  test.each<[string, Record<string, string>, string]>([
    ['both too short', { key: key.slice(1), iv: iv.slice(1) }, `${keyHint}; ${ivHint}`],
    [
      'a key of 32 characters that are 33 bytes',
      { key: Buffer.from(`${key.slice(1)}é`).toString('latin1'), iv },
      keyHint,
    ],
    [
      'an IV of 16 characters that are 17 bytes',
      { key, iv: Buffer.from(`${iv.slice(1)}é`).toString('latin1') },
      ivHint,
    ],
  ])('are refused with a hint that does not repeat them: %s', async (_, headers, hint) => {
    for (const path of [encrypt, decrypt]) {
      expectPlainRefusal(await responseTo(path, { headers, body: '{}' }), 'invalid_cipher_test', hint);
    }
  });

  test.each([
    ['an IV of 17 characters', { key, iv: `${iv}x` }, acmeTest],
    ['an IV of 24 characters in base64', { key, iv: 'Zx9Qw3Er7Ty1Ui5OAAAAAA==' }, acmeTest],
    [
      'a key of fewer characters in UTF-8',
      { key: Buffer.from(`${key.slice(2)}é`).toString('latin1'), iv },
      { key: `${key.slice(2)}é`, iv },
    ],
  ])('are read the way merchants’ code reads them: %s', async (_, headers, credentials) => {
    const response = await responseTo(encrypt, { headers, body: '{}' });
    expect(response.body).toBe(envelopeOf(credentials, '{}'));
  });

  test('appear neither in the log nor in a refusal', async () => {
    const { sidecar } = await startGateway({ routes });
    const responses = [
      await send(sidecar, `POST ${encrypt}`, { headers: { key: key.slice(1), iv: iv.slice(1) }, body: '{}' }),
      await send(sidecar, `POST ${encrypt}`, { headers: acmeTest, body: '{' }),
      await send(sidecar, `POST ${decrypt}`, { headers: acmeLive, body: hexOf(encrypted(acmeTest, '{"pan":1}')) }),
    ];
    const told = JSON.stringify([sidecar.log, responses.map(({ headers, body }) => [headers, body])]);
    for (const secret of [key, acmeLive.key]) expect(told).not.toContain(secret.slice(1));
    for (const secret of [iv, acmeLive.iv]) expect(told).not.toContain(secret.slice(1));
    expect(told).not.toContain('pan');
  });

  test('nor does a plaintext that a hint quotes appear in the log', async () => {
    const { sidecar } = await startGateway({ routes });
    const body = hexOf(encrypted(acmeTest, 'card=4111111111111111'));
    const { body: refusal } = await send(sidecar, `POST ${decrypt}`, { headers: acmeTest, body });
    expect(refusal).toContain('card=4111111111111111');
    expect(JSON.stringify(sidecar.log)).not.toContain('4111');
  });
});

describe('both endpoints', () => {
  test.each<[string, string | Buffer, string]>([
    ['no body', '', 'the body is empty: …'],
    ['white space', ' \r\n', 'the body is empty: …'],
    ['half a document', '{', 'the body is not JSON at byte 1, it ends too early: …'],
    ['a form', 'encrypted_data=00', 'the body is a form: … as JSON'],
    ['the bare ciphertext', 'ab'.repeat(16), 'the body looks like the bare ciphertext: …'],
  ])('refuse what is not JSON, and name the place: %s', async (_, body, hint) => {
    const remedies = { [encrypt]: 'send a JSON document', [decrypt]: 'send {"encrypted_data":"<ciphertext>"}' };
    for (const [path, remedy] of Object.entries(remedies)) {
      const response = await responseTo(path, { headers: acmeTest, body });
      expectPlainRefusal(response, 'invalid_cipher_test', hint.replace('…', remedy));
    }
  });

  test.each<[string, string | Buffer, Sent['headers'], RefusalCode]>([
    ['a compressed body', gzipSync('{}'), { 'content-encoding': 'gzip' }, 'unsupported_content_encoding'],
    ['a body beyond the limit', '"'.padEnd(101, 'x'), {}, 'body_too_large'],
  ])('refuse %s', async (_, body, headers, code) => {
    for (const path of [encrypt, decrypt]) {
      const sent = { headers: { ...acmeTest, ...headers }, body };
      expectPlainRefusal(await responseTo(path, sent, { limits: { requestBody: 100 } }), code);
    }
  });

  test('accept a body as long as `requestBody` and not a byte more', async () => {
    const mebibyte = 1 << 20;
    const end = String.raw`"\\" ]`;
    const document = `${'['.padEnd(mebibyte - end.length)}${end}`;
    const most = await responseTo(encrypt, { headers: acmeTest, body: document });
    expect(most.body).toBe(envelopeOf(acmeTest, document.replaceAll(' ', '')));
    const plaintext = JSON.stringify('x'.repeat(mebibyte / 2 - 34));
    const body = `{"encrypted_data":"${encrypted(acmeTest, plaintext).toString('hex')}"}`.padEnd(mebibyte);
    expect((await responseTo(decrypt, { headers: acmeTest, body })).body).toBe(plaintext);
    for (const [path, longest] of [
      [encrypt, document],
      [decrypt, body],
    ] as const) {
      expectPlainRefusal(await responseTo(path, { headers: acmeTest, body: `${longest} ` }), 'body_too_large');
    }
  });

  test.each([
    [encrypt, '[', 'invalid_cipher_test'],
    [decrypt, '[', 'invalid_cipher_test'],
    [decrypt, '{}', 'invalid_cipher_test'],
  ] as const)('%s names no cause for a body above 64 KiB: %s', async (path, body, code) => {
    const response = await responseTo(path, { headers: acmeTest, body: body.padEnd(65_537) });
    expectPlainRefusal(response, code, 'no hint for a body above 64 KiB: try a shorter one');
    expect((await responseTo(path, { headers: acmeTest, body: body.padEnd(65_536) })).body).not.toContain('64 KiB');
  });

  test('aes-decrypt names no cause for a ciphertext above 64 KiB', async () => {
    const of = async (bytes: number): Promise<Response> =>
      responseTo(decrypt, { headers: acmeTest, body: hexOf(Buffer.alloc(bytes)) });
    expectPlainRefusal(await of(32_769), 'decryption_failed', 'no hint for a body above 64 KiB: try a shorter one');
    expect((await of(32_768)).body).not.toContain('64 KiB');
  });

  test('process a long body in slices, and serve other requests in between', async () => {
    const read = [vi.spyOn(JsonReader.prototype, 'read'), vi.spyOn(MemberReader.prototype, 'read')];
    const update = vi.spyOn(Cipheriv.prototype, 'update');
    onTestFinished(() => [...read, update].forEach((spy) => spy.mockRestore()));
    const { sidecar, upstream } = await startGateway({ routes });
    const long = JSON.stringify('x'.repeat((1 << 20) - 2));
    const ciphertext = { encrypted_data: encrypted(acmeTest, long.slice(0, 1 << 18) + '"').toString('hex') };
    const [first, second, plain, short] = await Promise.all([
      send(sidecar, `POST ${encrypt}`, { headers: acmeTest, body: long }),
      send(sidecar, `POST ${encrypt}`, { headers: acmeTest, body: long }),
      send(sidecar, `POST ${decrypt}`, { headers: acmeTest, body: JSON.stringify(ciphertext) }),
      send(sidecar, `POST ${encrypt}`, { headers: acmeTest, body: '{}' }),
    ]);
    expect([first.body, second.body]).toEqual([envelopeOf(acmeTest, long), envelopeOf(acmeTest, long)]);
    expect(short.body).toBe(envelopeOf(acmeTest, '{}'));
    expect(plain.body).toHaveLength((1 << 18) + 1);
    expect(upstream.heads()).toBe(0);
    const pieces = read.flatMap(({ mock }) => mock.calls.map(([, from, to]) => to - from));
    const sealed = update.mock.calls.map(([bytes]) => (bytes as unknown as Buffer).length);
    expect([Math.max(...pieces), Math.max(...sealed)]).toEqual([sliceLength, sliceLength]);
  });

  test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])('refuse %s with 405', async (method) => {
    const { sidecar, upstream } = await startGateway({ routes });
    for (const path of [encrypt, decrypt]) {
      const response = await send(sidecar, `${method} ${path}`, { key: keys.acme });
      expect([response.status, response.headers.allow]).toEqual([405, 'POST']);
      if (method !== 'HEAD') expectPlainRefusal(response, 'method_not_allowed');
    }
    expect(upstream.heads()).toBe(0);
  });

  test('refuse a preflight, whatever the routes say', async () => {
    const { sidecar } = await startGateway({ routes: [route(encrypt, { keys: ['public'] })] });
    const headers = { origin: 'https://shop.example', 'access-control-request-method': 'POST' };
    expectPlainRefusal(await send(sidecar, `OPTIONS ${encrypt}`, { headers }), 'method_not_allowed');
  });

  test.each(['/API/S2S/AES-Encrypt', `${encrypt}/`, `${encrypt}?x=1`])('are matched like routes: %s', async (path) => {
    expect((await responseTo(path, { headers: acmeTest, body: '{}' })).body).toBe(envelopeOf(acmeTest, '{}'));
  });

  test.each<[string, string | undefined]>([
    ['no API key', undefined],
    ['a secret key', keys.globex],
    ['a public key', keys.globexPublic],
    ['the key of an account that encrypts', keys.acme],
    ['the public key of an account that encrypts', keys.acmePublic],
  ])('send a plain response to a request with %s', async (_, key) => {
    const sent = { headers: acmeTest, body: '{}' };
    const response = await responseTo(encrypt, key === undefined ? sent : { ...sent, key });
    expect([response.status, response.body]).toEqual([200, envelopeOf(acmeTest, '{}')]);
    expect(response.headers).not.toHaveProperty('envelope');
    expect(response.headers['cache-control']).toBe('no-store');
  });

  test.each<[RefusalCode, string]>([
    ['malformed_api_key', 'x'],
    ['invalid_api_key', `sk_test_${'x'.repeat(20)}`],
    ['environment_mismatch', keys.acmeLive],
    ['account_inactive', keys.acme],
  ])('check an API key that is sent, and refuse it in plain: %s', async (code, key) => {
    const accounts = [{ ...acme, active: false }, globex];
    for (const path of [encrypt, decrypt]) {
      expectPlainRefusal(await responseTo(path, { key, headers: acmeTest, body: '{}' }, { accounts }), code);
    }
  });
});

describe('the test endpoints', () => {
  test.each([
    ['live, by default', { serves: 'live' as const }, keys.acmeLive, acmeLive],
    ['test, if it is removed', { cipherTest: { environments: [] } }, keys.acme, acmeTest],
  ])('are ordinary routes in an environment without them: %s', async (_, setting, key, credentials) => {
    const { sidecar, upstream } = await startGateway({ routes: [route('/api/s2s/*', { envelope: true })], ...setting });
    for (const path of [encrypt, decrypt]) {
      const keyless = await send(sidecar, `POST ${path}`, { headers: acmeTest, body: '{}' });
      const problem = JSON.parse(keyless.body) as { code: string; detail: string };
      expect(problem.code).toBe('missing_api_key');
      expect(/aes-encrypt and aes-decrypt exist only in the test environment/.test(problem.detail)).toBe(
        'serves' in setting,
      );
      const body = envelopeOf(credentials, '{"a": 1}');
      const response = await send(sidecar, `POST ${path}`, {
        key,
        headers: { KEY: acmeTest.key, iv: acmeTest.iv },
        body,
      });
      expect(opened(credentials, response)).toBe('{"ok":true}');
    }
    expect(upstream.seen.map(({ url, body }) => [url, body])).toEqual([
      [encrypt, '{"a": 1}'],
      [decrypt, '{"a": 1}'],
    ]);
    for (const { headers } of upstream.seen) {
      expect(headers).not.toHaveProperty('key');
      expect(headers).not.toHaveProperty('iv');
    }
  });

  test('exist in live if `cipherTest` lists it', async () => {
    const setting = { serves: 'live', cipherTest: { environments: ['test', 'live'] } } as const;
    const response = await responseTo(encrypt, { headers: acmeTest, body: '{}' }, setting);
    expect(response.body).toBe(envelopeOf(acmeTest, '{}'));
  });
});

test('each request to a test endpoint gets its own turn of the event loop, so that other requests are served in between', async () => {
  const { sidecar } = await startGateway();
  const turns = turnsOfResponses();
  const headers = ['Host: localhost', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`, 'Content-Length: 2'];
  const work = `${request('POST /api/s2s/aes-encrypt HTTP/1.1', ...headers)}{}`;
  const clients = await Promise.all(Array.from({ length: 8 }, () => openConnection(sidecar.port)));
  for (const client of clients) client.send(work.repeat(5));
  await Promise.all(clients.map((client) => client.untilText('"data"', 5)));
  await vi.waitFor(() => expect(turns).toHaveLength(40));
  expect(new Set(turns).size).toBe(40);
});

test.each([
  ['an account’s public key', [`Authorization: Bearer ${keys.globexPublic}`]],
  ['no key', ['X-Forwarded-For: 198.51.100.1']],
])(
  'a request to a test endpoint with %s waits for at most one of another client, however many that client sends',
  async (_, fields) => {
    const { sidecar } = await startGateway({ trustedProxies: ['127.0.0.0/8'] });
    const headers = ['Host: localhost', `key: ${'k'.repeat(32)}`, `iv: ${'i'.repeat(16)}`, 'Content-Length: 2'];
    const work = (...more: readonly string[]): string =>
      `${request('POST /api/s2s/aes-encrypt HTTP/1.1', ...headers, ...more)}{}`;
    let answered = 0;
    onEachResponse(() => (answered += 1));
    const clients = await Promise.all(Array.from({ length: 30 }, () => openConnection(sidecar.port)));
    for (const client of clients) client.send(work('X-Forwarded-For: 203.0.113.1').repeat(20));
    const other = await openConnection(sidecar.port);
    await vi.waitFor(() => expect(answered).toBeGreaterThan(0));
    const before = answered;
    await other.send(work(...fields)).untilText('"data"');
    expect(answered - before).toBeLessThan(clients.length / 2);
    await Promise.all(clients.map((client) => client.untilText('"data"', 20)));
  },
);

test('the bodies of one merchant keep no other merchant waiting', async () => {
  const { sidecar } = await startGateway();
  const body = JSON.stringify('x'.repeat(50_000));
  const encrypt = (key: string): string => {
    const fields = [
      'Host: localhost',
      `Authorization: Bearer ${key}`,
      `key: ${'k'.repeat(32)}`,
      `iv: ${'i'.repeat(16)}`,
    ];
    return request('POST /api/s2s/aes-encrypt HTTP/1.1', ...fields, `Content-Length: ${body.length}`) + body;
  };
  const order: string[] = [];
  const ask = async (name: string, key: string): Promise<void> => {
    await (await openConnection(sidecar.port)).send(encrypt(key)).untilText('"data"');
    order.push(name);
  };
  const busy = Array.from({ length: 40 }, async () => ask('busy', keys.acme));
  await Promise.race(busy);
  const answeredBefore = order.length;
  await ask('other', keys.globex);
  await Promise.all(busy);
  expect(order.indexOf('other') - answeredBefore).toBeLessThan(20);
});
