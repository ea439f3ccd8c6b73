import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { EnvironmentName, KeyKind } from './api-key.ts';
import { cryptography } from '../cryptography.ts';

/** In the order that secret scanners use for base62. */
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** 190 random bits. */
const randomLength = 32;
/** The length of 32 bits in base62. */
const checksumLength = 6;

/**
 * Makes an API key: prefix, 32 random base62 characters, and a checksum of 6 more, by which secret scanners and the command line tell a
 * mistyped key from an unknown one. Admission ignores the checksum, because keys from elsewhere have none.
 */
export function makeApiKey(environment: EnvironmentName, kind: KeyKind): string {
  const body = `${kind === 'public' ? 'pk' : 'sk'}_${environment}_${randomText(randomLength)}`;
  return body + computeChecksum(body);
}

/** An id for a key: random, so unique without a look-up. */
export function makeKeyId(): string {
  return `key_${randomText(16)}`;
}

/**
 * The id of a key's successor. It is derived from the key, so that a key has one successor even if several operators
 * rotate it at the same time.
 */
export function successorId(keyId: string): string {
  const bytes = hash(cryptography.digest.algorithm, `successor of ${keyId}`, 'buffer');
  return `key_${Array.from(bytes.subarray(0, 16), (byte) => base62.charAt(byte % base62.length)).join('')}`;
}

/** Whether a key ends with its checksum, as all keys made here do. */
export function hasChecksum(key: string): boolean {
  return computeChecksum(key.slice(0, -checksumLength)) === key.slice(-checksumLength);
}

/** CRC-32 (ISO-HDLC, as in zip) of the characters before it, in base62 with leading zeros. */
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
