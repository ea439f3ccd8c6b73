import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { EnvironmentName, KeyKind } from './api-key.ts';
import { cryptography } from '../cryptography.ts';

/** The digits of base62, in the order that secret scanners use. */
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The number of random characters in a key. In base62, they contain 190 random bits. */
const randomLength = 32;
/** The number of base62 digits needed for 32 bits. */
const checksumLength = 6;

/**
 * Makes an API key: a prefix, 32 random base62 characters, and a checksum of six more characters. With the checksum, secret scanners and
 * the command line can tell a mistyped key from an unknown one. The checksum is not checked for requests, because keys that were made
 * elsewhere have none.
 */
export function makeApiKey(environment: EnvironmentName, kind: KeyKind): string {
  const body = `${kind === 'public' ? 'pk' : 'sk'}_${environment}_${randomText(randomLength)}`;
  return body + computeChecksum(body);
}

/** Makes an id for a key. It is random, so it is unique without a look-up. */
export function makeKeyId(): string {
  return `key_${randomText(16)}`;
}

/**
 * The id of a key's successor. It is derived from the id of the key, so that a key gets only one successor even if several operators rotate
 * it at the same time.
 */
export function successorId(keyId: string): string {
  const bytes = hash(cryptography.digest.algorithm, `successor of ${keyId}`, 'buffer');
  return `key_${Array.from(bytes.subarray(0, 16), (byte) => base62.charAt(byte % base62.length)).join('')}`;
}

/** Whether a key ends with its checksum, as every key from `makeApiKey` does. */
export function hasChecksum(key: string): boolean {
  return computeChecksum(key.slice(0, -checksumLength)) === key.slice(-checksumLength);
}

/** The CRC-32 (ISO-HDLC, as in zip) of `text`, in base62 with leading zeros. */
function computeChecksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < checksumLength; i++) {
    digits = base62.charAt(rest % base62.length) + digits;
    rest = Math.floor(rest / base62.length);
  }
  return digits;
}

function randomText(length: number): string {
  return Array.from({ length }, () => base62.charAt(randomInt(base62.length))).join('');
}
