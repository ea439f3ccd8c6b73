import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { refusals } from '../../src/errors.ts';
import { cipherTestAt } from '../../src/proxy/admit/target.ts';
import { decrypted, encrypted, envelopeOf, opened, send, type Response, type Sent } from '../support/client.ts';
import { acmeWith, startGateway } from '../support/gateway.ts';
import { acmeLive, acmeTest, encryptionOf, keys } from '../support/sidecar.ts';

const run = promisify(execFile);
const file = 'docs/merchants.openapi.json';

type Json = Readonly<Record<string, unknown>>;

interface Described {
  readonly headers?: Json;
  readonly content: Readonly<
    Record<string, { readonly schema: Json; readonly examples?: Readonly<Record<string, { readonly value: Json }>> }>
  >;
}

interface Operation {
  readonly operationId: string;
  readonly requestBody?: Described;
  readonly responses: Readonly<Record<string, Described>>;
}

interface Description {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: { readonly Problem: { readonly properties: { readonly code: Json } } } };
}

const text = readFileSync(file, 'utf8');
const raw = JSON.parse(text) as Json;
const document = resolved(raw) as Description;

/** A part of the document in which references are replaced with what they refer to. */
function resolved(part: unknown): unknown {
  if (typeof part !== 'object' || part === null) return part;
  if (Array.isArray(part)) return part.map(resolved);
  const { $ref } = part as { $ref?: string };
  if ($ref === undefined)
    return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, resolved(value)]));
  let target: unknown = raw;
  for (const step of $ref.split('/').slice(1)) target = (target as Json)[step];
  if (target === undefined) throw new Error(`there is no ${$ref}`);
  return resolved(target);
}

function operationAt(line: string): Operation {
  const [method = '', path = ''] = line.split(' ');
  const known = cipherTestAt(path) === undefined ? '/api/s2s/{endpoint}' : path;
  const operation = document.paths[known]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`${line} is not described`);
  return operation;
}

/** Expects that the document describes this response: its status, type, body and headers. */
function expectDescribed(line: string, response: Response): void {
  const { responses } = operationAt(line);
  const { status, headers, body } = response;
  const described = responses[status] ?? (status < 300 ? responses['2XX'] : responses['default']);
  const type = headers['content-type'] ?? '';
  const content = described?.content[type];
  if (content === undefined) throw new Error(`${status} ${type} is not described for ${line}`);
  const value = JSON.parse(body) as Json;
  expect(
    z.fromJSONSchema(content.schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value).error,
  ).toBeUndefined();
  if (type === 'application/problem+json') {
    const { value: example = {} } = content.examples?.[String(value['code'])] ?? {};
    const { hint: _hint, ...shown } = value;
    const own = { type: `https://docs.example/errors#${String(value['code'])}`, request_id: example['request_id'] };
    expect({ ...shown, ...own }).toEqual(example);
  }
  const named = new Set(Object.keys(described?.headers ?? {}).map((name) => name.toLowerCase()));
  const ours = Object.keys(headers).filter((name) => /^(?:envelope|x-request-id|retry-after)/.test(name));
  expect(ours.filter((name) => !named.has(name))).toEqual([]);
}

const json = { 'Content-Type': 'application/json' };
const credentials = { ...json, key: acmeTest.key, iv: acmeTest.iv };
const charge = 'POST /api/s2s/charge';
const [encrypt, decrypt] = ['POST /api/s2s/aes-encrypt', 'POST /api/s2s/aes-decrypt'];
const ciphertext = encrypted(acmeTest, '{"amount":1500}').toString('hex');
const sealed = (plaintext: string): string => envelopeOf(acmeTest, plaintext);

test('the document follows the rules that Redocly recommends', { timeout: 60_000 }, () => {
  const { status, stdout } = spawnSync('redocly', ['lint', '--extends=recommended', file], {
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    encoding: 'utf8',
  });
  expect(stdout).not.toContain('warning');
  expect(status).toBe(0);
  expect(document.openapi).toBe('3.1.0');
});

test('a tool can generate types for each operation from it', { timeout: 60_000 }, async () => {
  const { stdout } = await run('openapi-typescript', [file], { maxBuffer: 1 << 24 });
  for (const operation of ['aes_encrypt', 'aes_decrypt', 'send_envelope', 'read_envelope']) {
    expect(stdout).toContain(`operations["${operation}"]`);
  }
});

test('it names every code in the table of refusals', () => {
  expect(document.components.schemas.Problem.properties.code['enum']).toEqual(Object.keys(refusals));
  const examples = Object.values(document.paths).flatMap((operations) =>
    ['post', 'get'].flatMap((method) =>
      Object.values(operations[method]?.responses ?? {}).flatMap(({ content }) =>
        Object.keys(content['application/problem+json']?.examples ?? {}),
      ),
    ),
  );
  // Only endpoints without envelopes respond with this code. They belong to the payment API, not to this document.
  expect([...new Set([...examples, 'encryption_not_supported'])].toSorted()).toEqual(Object.keys(refusals).toSorted());
});

test('its paths for the test endpoints are those that the sidecar answers itself', () => {
  const own = Object.keys(document.paths).map((path) => [path, cipherTestAt(path)]);
  expect(own).toEqual([
    ['/api/s2s/aes-encrypt', 'encrypt'],
    ['/api/s2s/aes-decrypt', 'decrypt'],
    ['/api/s2s/{endpoint}', undefined],
  ]);
});

test('its sealed examples open to the documents in the plain examples', () => {
  const { examples } = raw['components'] as { examples: Record<string, { value: Json }> };
  const demo = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' };
  const names = Object.keys(examples).filter((name) => name.endsWith('_sealed'));
  expect(names.length).toBe(Object.values(refusals).filter((row) => 'sealed' in row).length);
  for (const name of names) {
    const data = String(examples[name]?.value['data']);
    const plain = decrypted(demo, Buffer.from(data, 'hex'));
    expect(JSON.parse(plain.toString())).toEqual(examples[name.replace(/_sealed$/, '')]?.value);
  }
});

describe('a response is as described:', () => {
  const withKey = { key: keys.acme };

  test.each<[title: string, line: string, sent: Sent, status: number, code?: string]>([
    ['a sealed success', charge, { ...withKey, headers: json, body: sealed('{"amount":1500}') }, 200],
    ['a slip that is accepted', charge, { ...withKey, headers: json, body: sealed('"{}"') }, 200],
    ['a sealed list', 'GET /api/s2s/transactions', withKey, 200],
    ['no key', charge, { headers: json, body: sealed('1') }, 401, 'missing_api_key'],
    ['a bad key', 'GET /api/s2s/x', { key: 'nonsense' }, 401, 'malformed_api_key'],
    ['an unknown key', 'GET /api/s2s/x', { key: `${keys.acme}x` }, 401, 'invalid_api_key'],
    ['a live key', 'GET /api/s2s/x', { key: keys.acmeLive }, 403, 'environment_mismatch'],
    ['a public key', charge, { key: keys.acmePublic, headers: json, body: sealed('1') }, 403],
    ['plain JSON', charge, { ...withKey, headers: json, body: '{"amount":1}' }, 400, 'envelope_required'],
    ['two members', charge, { ...withKey, headers: json, body: '{"data":"00","x":1}' }, 400, 'envelope_malformed'],
    ['another key', charge, { ...withKey, headers: json, body: envelopeOf(acmeLive, '1') }, 400, 'decryption_failed'],
    [
      'an unknown fingerprint',
      'GET /api/s2s/x',
      { ...withKey, headers: { 'Envelope-Credentials': '0123456789abcdef' } },
      400,
      'decryption_failed',
    ],
    [
      'a compressed body',
      charge,
      { ...withKey, headers: { ...json, 'Content-Encoding': 'gzip' }, body: sealed('1') },
      415,
    ],
    ['too large a body', charge, { ...withKey, headers: json, body: Buffer.alloc(1_048_577, 0x20) }, 413],
    ['a path with two readings', 'GET /api/s2s//x', withKey, 400, 'ambiguous_request'],
    [
      'too many headers',
      'GET /api/s2s/x',
      { headers: { 'X-Filler': Array.from({ length: 120 }, () => 'a=1') } },
      431,
      'headers_too_large',
    ],
    ['an encrypted document', encrypt, { headers: credentials, body: '{ "amount": 1500 }' }, 200],
    [
      'a decrypted document',
      decrypt,
      { headers: credentials, body: JSON.stringify({ encrypted_data: ciphertext }) },
      200,
    ],
    ['no key header', encrypt, { headers: json, body: '{}' }, 400, 'invalid_cipher_test'],
    ['no ciphertext', decrypt, { headers: credentials, body: '{}' }, 400, 'invalid_cipher_test'],
    [
      'a ciphertext that does not open',
      decrypt,
      { headers: { ...credentials, key: acmeLive.key }, body: JSON.stringify({ encrypted_data: ciphertext }) },
      400,
      'decryption_failed',
    ],
    [
      'a compressed document',
      encrypt,
      { headers: { ...credentials, 'Content-Encoding': 'gzip' }, body: '{}' },
      415,
      'unsupported_content_encoding',
    ],
    [
      'too large a document',
      encrypt,
      { headers: credentials, body: `"${'x'.repeat(1 << 20)}"` },
      413,
      'body_too_large',
    ],
    [
      'an unknown key on a test endpoint',
      encrypt,
      { key: `${keys.acme}x`, headers: credentials, body: '{}' },
      401,
      'invalid_api_key',
    ],
  ])('%s', async (_title, line, sent, status, code) => {
    const { sidecar, upstream } = await startGateway({ accounts: [acmeWith(encryptionOf(acmeTest))] });
    const response = await send(sidecar, line, sent);
    expect(response.status).toBe(status);
    expect(upstream.seen).toHaveLength(status < 300 && !line.includes('/aes-') ? 1 : 0);
    expectDescribed(line.replace('//', '/'), response);
    // The code of a sealed response is inside the envelope.
    if (response.headers['envelope'] === 'sealed') opened(acmeTest, response);
    else if (code !== undefined) expect(JSON.parse(response.body)).toMatchObject({ code });
  });
});

describe('a request is as described:', () => {
  const accepts = (line: string, body: string): boolean => {
    const schema = operationAt(line).requestBody?.content['application/json']?.schema as Parameters<
      typeof z.fromJSONSchema
    >[0];
    return z.fromJSONSchema(schema).safeParse(JSON.parse(body)).success;
  };

  test.each([
    ['hex', sealed('{"amount":1500}'), true],
    ['upper-case hex', JSON.stringify({ data: ciphertext.toUpperCase() }), true],
    ['base64', JSON.stringify({ data: Buffer.from(ciphertext, 'hex').toString('base64') }), true],
    [
      'base64 of two blocks',
      JSON.stringify({ data: encrypted(acmeTest, '{"amount":1500000}').toString('base64') }),
      true,
    ],
    ['half a byte', JSON.stringify({ data: ciphertext.slice(1) }), false],
    ['base64url', '{"data":"sc_lz3kJJ2D6lLHVqhehVA=="}', false],
    ['base64 without padding', '{"data":"sc/lz3kJJ2D6lLHVqhehVA"}', false],
    ['another member', JSON.stringify({ data: ciphertext, amount: 1 }), false],
    ['plain JSON', '{"amount":1500}', false],
    ['an empty string', '{"data":""}', false],
  ])('an envelope in %s', async (_name, body, isValid) => {
    expect(accepts(charge, body)).toBe(isValid);
    const { sidecar } = await startGateway({ accounts: [acmeWith(encryptionOf(acmeTest))] });
    const { status } = await send(sidecar, charge, { key: keys.acme, headers: json, body });
    expect(status).toBe(isValid ? 200 : 400);
  });

  test.each([
    [JSON.stringify({ encrypted_data: ciphertext }), true],
    ['{"encrypted_data":1}', false],
    ['{}', false],
  ])('aes-decrypt with %.40s', (body, isValid) => {
    expect(accepts(decrypt, body)).toBe(isValid);
  });
});
