import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes vectors.json. All ciphertexts, digests and base64 come from the openssl command. They involve neither this project's code nor
 * Node's.
 */

type KeyText = 'text' | 'base64';
type Encoding = 'hex' | 'base64';

/** A key and an IV as merchants are given them. */
interface Credentials {
  readonly key: string;
  readonly iv: string;
  readonly key_text: KeyText;
}

/** A plaintext that seals to `data`, which opens to `plaintext`. */
export interface ValidVector extends Credentials {
  readonly name: string;
  readonly encoding: Encoding;
  readonly plaintext: string;
  readonly data: string;
  readonly fingerprint: string;
}

/** Data that does not open. `code` is the kits' code for it. */
export interface InvalidVector extends Credentials {
  readonly name: string;
  readonly data: string;
  readonly code: string;
}

/** Credentials that are refused before anything is sealed. `code` is the kits' code for them. */
export interface BadCredentials extends Credentials {
  readonly name: string;
  readonly code: string;
}

export interface Vectors {
  readonly valid: readonly ValidVector[];
  readonly invalid: readonly InvalidVector[];
  readonly bad_credentials: readonly BadCredentials[];
}

const demo: Credentials = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-', key_text: 'text' };
/** Credentials of the form that the sidecar generates. Both strings are also valid base64. */
const generated: Credentials = { key: 'k7Jq2vXw9RtB4mNz8LpC1sDfG5hYeU3a', iv: 'Zx9Qw3Er7Ty1Ui5O', key_text: 'text' };
const longIv: Credentials = { ...generated, iv: 'Zx9Qw3Er7Ty1Ui5OaBcDeQ==' };
const accented: Credentials = { key: 'clé-de-31-caractères-et-32-oc!', iv: 'demo-iv-of-acme-é', key_text: 'text' };
const base64: Credentials = {
  key: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=',
  iv: '8PHy8/T19vf4+fr7/P3+/w==',
  key_text: 'base64',
};

function openssl(args: readonly string[], input: Buffer): Buffer {
  return execFileSync('openssl', args, { input, stdio: ['pipe', 'pipe', 'inherit'] });
}

function bytesOf({ key, iv, key_text: keyText }: Credentials): { key: Buffer; iv: Buffer } {
  if (keyText === 'text') return { key: Buffer.from(key), iv: Buffer.from(iv).subarray(0, 16) };
  const decode = (text: string): Buffer => openssl(['base64', '-d', '-A'], Buffer.from(text));
  return { key: decode(key), iv: decode(iv) };
}

function encrypt(credentials: Credentials, plaintext: Buffer, ...more: readonly string[]): Buffer {
  const { key, iv } = bytesOf(credentials);
  const args = ['enc', '-aes-256-cbc', '-K', key.toString('hex'), '-iv', iv.toString('hex'), ...more];
  return openssl(args, plaintext);
}

function encode(ciphertext: Buffer, encoding: Encoding): string {
  return encoding === 'hex' ? ciphertext.toString('hex') : openssl(['base64', '-A'], ciphertext).toString();
}

function fingerprintOf(credentials: Credentials): string {
  const { key, iv } = bytesOf(credentials);
  return openssl(['dgst', '-sha256', '-r'], Buffer.concat([key, iv]))
    .toString()
    .slice(0, 16);
}

function valid(name: string, plaintext: string, credentials = demo, encoding: Encoding = 'hex'): ValidVector {
  const data = encode(encrypt(credentials, Buffer.from(plaintext)), encoding);
  return { name, ...credentials, encoding, plaintext, data, fingerprint: fingerprintOf(credentials) };
}

/** A JSON text of this many bytes. */
const ofLength = (length: number): string => (length === 1 ? '7' : JSON.stringify('x'.repeat(length - 2)));

const charge = '{"amount":1500}';
const name = '{"name":"Zoë €"}';
const letters = '{"name":"Zoë Łukasz 北京 €","sign":"😀","odd":"\u007f\u2028","escaped":"\\u0000\\ud83d\\ude00\\/"}';
const numbers = '{ "big" : 12345678901234567890.10, "small":1e-7,\r\n\t"twice":[1,1], "twice":null }';

const validVectors = (): ValidVector[] => [
  valid("the demo's charge", charge),
  valid("the demo's charge, base64", charge, demo, 'base64'),
  valid('the name in the self-tests', name),
  valid('the name in the self-tests, base64', name, demo, 'base64'),
  ...[1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 1_000].map((n) => valid(`${n} bytes, hex`, ofLength(n))),
  ...[15, 16, 17, 32, 33, 47, 48].map((n) => valid(`${n} bytes, base64`, ofLength(n), generated, 'base64')),
  valid('letters of one to four bytes, hex', letters),
  valid('letters of one to four bytes, base64', letters, generated, 'base64'),
  valid('numbers and white space as they are', numbers),
  valid('an empty object', '{}'),
  valid('credentials that are base64 too, as text', charge, generated),
  valid('an IV of 24 characters', charge, longIv),
  valid('a key with letters of two bytes', charge, accented),
  valid('key text base64, hex', charge, base64),
  valid('key text base64, base64', letters, base64, 'base64'),
];

function invalidVectors(): InvalidVector[] {
  const row = (code: string, name: string, data: string, credentials = demo): InvalidVector => ({
    name,
    ...credentials,
    data,
    code,
  });
  const malformed = (name: string, data: string): InvalidVector => row('malformed', name, data);
  const failed = (name: string, data: Buffer): InvalidVector => row('decryption_failed', name, encode(data, 'hex'));
  const hex = encode(encrypt(demo, Buffer.from(charge)), 'hex');
  const two = encrypt(demo, Buffer.from(ofLength(20)));
  const in64 = encode(two, 'base64');
  /** The ciphertext of whole blocks whose end is not PKCS#7 padding. */
  const padded = (text: string, ...end: readonly number[]): Buffer =>
    encrypt(demo, Buffer.concat([Buffer.from(text), Buffer.from(end)]), '-nopad');
  const notUtf8 = (name: string, ...bytes: readonly number[]): InvalidVector =>
    failed(
      `not UTF-8: ${name}`,
      encrypt(demo, Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])),
    );
  return [
    malformed('empty', ''),
    malformed('half a byte of hex', hex.slice(0, -1)),
    malformed('a letter that is not hex', `${hex.slice(0, -1)}g`),
    malformed('hex with a space', `${hex.slice(0, 16)} ${hex.slice(16)}`),
    malformed('hex with a line break', `${hex}\n`),
    malformed('hex with a prefix', `0x${hex}`),
    malformed('hex in quotes', `"${hex}"`),
    malformed('base64 without padding', in64.replaceAll('=', '')),
    malformed('base64 with too much padding', `${in64}=`),
    malformed('base64 with a line break', `${in64.slice(0, 20)}\n${in64.slice(20)}`),
    malformed('base64 for URLs', encode(Buffer.alloc(16, 0xfb), 'base64').replaceAll('+', '-').replaceAll('/', '_')),
    malformed('base64 with a space for a plus', encode(Buffer.alloc(16, 0xfb), 'base64').replace('+', ' ')),
    malformed('base64 whose last bits are not zero', `${'A'.repeat(21)}B==`),
    malformed('base64 of hex', encode(Buffer.from('not whole blocks'.slice(1)), 'base64')),
    malformed('one byte', '00'),
    malformed('15 bytes', hex.slice(2)),
    malformed('17 bytes', `${hex}00`),
    malformed('17 bytes in base64', encode(Buffer.alloc(17, 7), 'base64')),
    failed('the last block is missing', two.subarray(0, 16)),
    failed('the first block is missing', encrypt(demo, Buffer.from(letters)).subarray(16)),
    failed('padding of length 0', padded('{"a":"12345678"}'.slice(0, 15), 0)),
    failed('padding of length 17', padded('{"a":"12345678"}'.slice(0, 15), 17)),
    failed('padding of 255', padded('{"a":"12345678"}'.slice(0, 15), 255)),
    failed('padding whose bytes differ', padded('{"amount":15}', 2, 3, 3)),
    failed('padding with NUL bytes', padded('{"amount":15}', 0, 0, 0)),
    failed('padding with spaces', padded('{"amount":15}', 32, 32, 32)),
    failed('padding to blocks of 32 bytes', padded('{"amount":15}', ...Array.from({ length: 19 }, () => 19))),
    row('decryption_failed', 'sealed with another key', encode(encrypt(generated, Buffer.from(letters)), 'hex')),
    // The first block decrypts to other bytes, of which at least one is not UTF-8.
    row('decryption_failed', 'sealed with another IV', encode(encrypt(demo, Buffer.from(letters)), 'hex'), {
      ...demo,
      iv: `\u00b4${'x'.repeat(14)}`,
    }),
    notUtf8('a letter in Latin-1', 0xe9),
    notUtf8('a continuation alone', 0x80),
    notUtf8('two bytes for a slash', 0xc0, 0xaf),
    notUtf8('three bytes for a slash', 0xe0, 0x80, 0xaf),
    notUtf8('half of a surrogate pair', 0xed, 0xa0, 0x80),
    notUtf8('a surrogate pair', 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80),
    notUtf8('beyond the last letter', 0xf4, 0x90, 0x80, 0x80),
    notUtf8('five bytes', 0xf8, 0x88, 0x80, 0x80, 0x80),
    notUtf8('FF', 0xff),
    failed('not UTF-8: cut at the end', encrypt(demo, Buffer.from([0x22, 0xe2, 0x82]))),
  ];
}

function badCredentials(): BadCredentials[] {
  const row = (code: string, name: string, change: Partial<Credentials>): BadCredentials => ({
    name,
    ...demo,
    ...change,
    code,
  });
  const pem = '-----BEGIN PUBLIC KEY-----';
  return [
    row('key_empty', 'an empty key', { key: '' }),
    row('iv_empty', 'an empty IV', { iv: '' }),
    row('key_quoted', 'a key in double quotes', { key: `"${demo.key}"` }),
    row('key_quoted', 'a key in single quotes', { key: `'${demo.key}'` }),
    row('iv_quoted', 'an IV in quotes', { iv: `"${demo.iv}"` }),
    row('key_space', 'a key with a space before it', { key: ` ${demo.key}` }),
    row('key_space', 'a key with a line break after it', { key: `${demo.key}\n` }),
    row('key_space', 'a key of 31 characters and a space', { key: `${demo.key.slice(1)} ` }),
    row('iv_space', 'an IV with a space before it', { iv: ` ${demo.iv}` }),
    row('key_nul', 'a key that was filled up with NUL bytes', { key: `${demo.key.slice(0, 24)}${'\0'.repeat(8)}` }),
    row('iv_nul', 'an IV that was filled up with NUL bytes', { iv: `${demo.iv.slice(0, 12)}${'\0'.repeat(4)}` }),
    row('key_decoded', 'a key of 24 bytes', { key: demo.key.slice(0, 24) }),
    row('key_decoded', 'a key that was decoded and read as UTF-8', { key: `\ufffd${demo.key.slice(3)}` }),
    row('iv_decoded', 'an IV of 12 bytes', { iv: demo.iv.slice(0, 12) }),
    row('iv_decoded', 'an IV that was decoded and read as UTF-8', { iv: `\ufffd${demo.iv.slice(3)}` }),
    row('key_hex', 'a key in hex', { key: Buffer.from(demo.key).toString('hex') }),
    row('key_hex', 'a digest in hex', { key: '0F'.repeat(32) }),
    row('iv_hex', 'an IV in hex', { iv: Buffer.from(demo.iv).toString('hex') }),
    row('key_pem', 'a PEM file', { key: `${pem}\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJB\n-----END PUBLIC KEY-----` }),
    row('key_api_key', 'a secret API key', { key: 'sk_test_demo_acme_not_a_secret' }),
    row('key_api_key', 'a public API key of live', { key: 'pk_live_demo_acme_not_a_secret' }),
    row('iv_api_key', 'an API key as the IV', { iv: 'sk_test_demo_acme_not_a_secret' }),
    row('swapped', 'the key and the IV swapped', { key: demo.iv, iv: demo.key }),
    row('swapped', 'the key and the IV swapped, base64', { key_text: 'base64', key: base64.iv, iv: base64.key }),
    row('iv_is_key', 'the key as the IV', { iv: demo.key }),
    row('key_base64', 'a key in base64 as text', { key: base64.key }),
    row('key_length', 'a key of 31 bytes', { key: demo.key.slice(1) }),
    row('key_length', 'a key of 33 bytes', { key: `${demo.key}x` }),
    row('key_length', 'a key of 32 characters and 33 bytes', { key: `é${demo.key.slice(1)}` }),
    row('key_length', 'a key of 16 bytes', { key: demo.key.slice(0, 16) }),
    row('iv_length', 'an IV of 15 characters', { iv: demo.iv.slice(1) }),
    row('iv_length', 'an IV of 16 characters and 17 bytes', { iv: `é${demo.iv.slice(1)}` }),
    row('key_not_base64', 'a key that is not base64', { key_text: 'base64' }),
    row('key_not_base64', 'a key in base64 without padding', { ...base64, key: base64.key.slice(0, -1) }),
    row('key_not_base64', 'a key in base64 for URLs', { ...base64, key: `__${base64.key.slice(2)}` }),
    row('iv_not_base64', 'an IV that is not base64', { ...base64, iv: demo.iv }),
    row('key_length', 'a key of 24 bytes in base64', { ...base64, key: generated.key }),
    row('iv_length', 'an IV of 12 bytes in base64', { ...base64, iv: generated.iv }),
  ];
}

/** Generates all vectors again. */
export function generateVectors(): Vectors {
  return { valid: validVectors(), invalid: invalidVectors(), bad_credentials: badCredentials() };
}

export const vectorsFile = join(import.meta.dirname, 'vectors.json');

if (import.meta.main) writeFileSync(vectorsFile, `${JSON.stringify(generateVectors(), null, 1)}\n`);
