import { createHash } from 'node:crypto';
import { blockLength } from '../aes-cbc.ts';
import { decodeBase64 } from '../encoding.ts';

/** Bytes that a merchant's code may have used by mistake. An empty name means the right bytes. */
export interface Candidate {
  readonly name: string;
  readonly bytes: Buffer;
}

/** A mistake and the bytes that it yields. The bytes are undefined if the mistake is impossible with this text. */
type Mistake = readonly [name: string, bytes: Buffer | undefined];

const keyLength = 32;
const asText = 'pass its 32 characters as bytes';
const ivAsText = 'pass its first 16 characters as bytes';

/** The right key, then the keys that programs use by mistake, most frequent mistakes first. Each has 16, 24 or 32 bytes. */
export function keysFor(key: string, iv: string): readonly Candidate[] {
  const bytes = Buffer.from(key);
  const decoded = decodeBase64(key);
  const [fromBase64, fromHex] = [leniently(key), decodeHex(key)];
  const mistakes: readonly Mistake[] = [
    ['', bytes],
    [
      'the key was decoded from base64, so AES-192 was used: pass its 32 characters as bytes',
      decoded?.length === 24 ? decoded : undefined,
    ],
    ['the key was decoded from hex, so AES-128 was used: pass its 32 characters as bytes', fromHex],
    [`the key was decoded from base64 and padded with NULs, as PHP does: ${asText}`, filled(fromBase64)],
    [`the key was decoded from hex and padded with NULs, as PHP does: ${asText}`, filled(fromHex)],
    // hex2bin() returns false for a string that is not hex, and openssl_encrypt() treats false as an empty string.
    ['the key was 32 NULs: in PHP, hex2bin() returns false for text that is not hex', Buffer.alloc(keyLength)],
    ['AES-128 was used with the first 16 characters of the key: use AES-256', bytes.subarray(0, 16)],
    ...digests('key', bytes, [32, 16]),
    ['AES-192 was used with the first 24 characters of the key: use AES-256', bytes.subarray(0, 24)],
    ...spellings('key', key, keyLength),
    ['the key was cut to its first 16 characters and padded with NULs: use all 32', filled(bytes.subarray(0, 16))],
    ['the key was UTF-16: encode it as UTF-8', Buffer.from(key, 'utf16le')],
    ['the key was taken from the IV', filled(Buffer.from(iv))],
    ['the key was taken from the IV', Buffer.from(iv)],
    ['the key was folded to 16 bytes, as MySQL does: use AES-256', folded(bytes)],
  ];
  return distinct(mistakes, (used) => (used.length > keyLength ? used.subarray(0, keyLength) : used), [16, 24, 32]);
}

/** The right IV, then the IVs that programs use by mistake. Each has 16 bytes. */
export function ivsFor(iv: string, key: string): readonly Candidate[] {
  const bytes = Buffer.from(iv);
  const decoded = leniently(iv);
  const mistakes: readonly Mistake[] = [
    ['', Buffer.from(iv.slice(0, blockLength))],
    ['the IV was all zero bytes: use the one you were given', Buffer.alloc(blockLength)],
    ['the IV was decoded from base64: pass its first 16 characters as bytes', filled(decoded, blockLength)],
    ['the IV was decoded from hex: pass its first 16 characters as bytes', decodeHex(iv)],
    ...digests('IV', bytes, [16]),
    ...digests('IV', bytes.subarray(0, blockLength), [16]),
    ...spellings('IV', iv, blockLength),
    [`the last 16 characters of the IV were used: ${ivAsText}`, bytes.subarray(-blockLength)],
    ['the IV was UTF-16: encode it as UTF-8', Buffer.from(iv, 'utf16le')],
    ['the IV was taken from the key', Buffer.from(key)],
    ['the IV was 16 "0" digits: use the one you were given', Buffer.from('0'.repeat(blockLength))],
  ];
  return distinct(mistakes, (used) => used.subarray(0, blockLength), [blockLength]);
}

/** Digests of text, as bytes and as hex digits. @param lengths the lengths that a cipher takes, in bytes */
function digests(of: 'key' | 'IV', text: Buffer, lengths: readonly number[]): readonly Mistake[] {
  const remedy = of === 'key' ? 'pass its characters as bytes' : ivAsText;
  return ['SHA-256', 'MD5', 'SHA-1', 'SHA-512'].flatMap((name): readonly Mistake[] => {
    const digest = createHash(name.replace('-', '')).update(text).digest();
    const inHex = Buffer.from(digest.toString('hex'));
    const used = lengths.flatMap((length) => [filled(digest, length), digest.subarray(0, length)]);
    const raw = used.map((bytes) => [`the ${of} was hashed with ${name}: ${remedy}`, bytes] as const);
    return raw.concat([[`the ${of} was hashed with ${name} and written in hex: ${remedy}`, inHex]]);
  });
}

/** Changes that environment files, editors and functions make to text. @param length how many bytes of the text are used */
function spellings(of: 'key' | 'IV', text: string, length: number): readonly Mistake[] {
  const used = Buffer.from(text.slice(0, length));
  const short = `the ${of} was one character short`;
  return [
    [`the ${of} was in quotes: remove them`, Buffer.from(`"${text}"`)],
    [`the ${of} was in quotes: remove them`, Buffer.from(`'${text}'`)],
    [`there was a space before the ${of}: remove it`, Buffer.from(` ${text}`)],
    [`there was a line break before the ${of}: remove it`, Buffer.from(`\n${text}`)],
    [`there was a byte order mark before the ${of}: remove it`, Buffer.from(`\ufeff${text}`)],
    [`${short}: the last one was missing`, filled(used.subarray(0, length - 1), length)],
    [`${short}: the first one was missing`, filled(used.subarray(1), length)],
    [`${short}: the first one was missing`, Buffer.from(text.slice(1))],
    [`the ${of} was in lower case`, Buffer.from(text.toLowerCase())],
    [`the ${of} was in upper case`, Buffer.from(text.toUpperCase())],
    [
      `the ${of} was additionally encoded in base64: pass its characters as bytes`,
      Buffer.from(used.toString('base64')),
    ],
    [
      `the ${of} was additionally encoded in base64: pass its characters as bytes`,
      Buffer.from(Buffer.from(text).toString('base64')),
    ],
    [`the ${of} was additionally encoded in hex: pass its characters as bytes`, Buffer.from(used.toString('hex'))],
    [`the ${of} was percent-encoded`, Buffer.from(encodeURIComponent(text))],
    [`the ${of} had spaces in place of "+": it was decoded as a form`, Buffer.from(text.replaceAll('+', ' '))],
  ];
}

/** Each value once, with the name of the first mistake that yields it. Values whose length no cipher takes are left out. */
function distinct(
  mistakes: readonly Mistake[],
  cut: (bytes: Buffer) => Buffer,
  lengths: readonly number[],
): readonly Candidate[] {
  const guesses = new Map<string, Candidate>();
  for (const [name, made] of mistakes) {
    if (made === undefined) continue;
    const bytes = cut(made);
    const value = bytes.toString('latin1');
    if (lengths.includes(bytes.length) && !guesses.has(value)) guesses.set(value, { name, bytes });
  }
  return [...guesses.values()];
}

/** Fills bytes up with NULs to `length`, as PHP and OpenSSL's command line do. Undefined if there are no bytes, or too many. */
function filled(bytes: Buffer | undefined, length = keyLength): Buffer | undefined {
  if (bytes === undefined || bytes.length === 0 || bytes.length > length) return undefined;
  return Buffer.concat([bytes, Buffer.alloc(length - bytes.length)]);
}

/** Decodes base64 as PHP does: skips other characters and does not require padding. */
function leniently(text: string): Buffer | undefined {
  return Buffer.from(text.replace(/[^A-Za-z0-9+/]/g, ''), 'base64');
}

function decodeHex(text: string): Buffer | undefined {
  return /^[0-9A-Fa-f]{32}$/.test(text) ? Buffer.from(text, 'hex') : undefined;
}

/** Folds a long key by XOR, as MySQL's AES_ENCRYPT does. */
function folded(bytes: Buffer): Buffer {
  const key = Buffer.alloc(blockLength);
  bytes.forEach((byte, at) => {
    key[at % blockLength] = (key[at % blockLength] ?? 0) ^ byte;
  });
  return key;
}
