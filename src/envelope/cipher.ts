import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { Credentials } from './credentials.ts';

const algorithm = 'aes-256-cbc';

/** Bytes in a block of AES. */
export const blockLength = 16;

/** Whether `ciphertext` has a length that AES-CBC can have given: whole blocks, one at least. */
export function isWholeBlocks(ciphertext: Buffer): boolean {
  return ciphertext.length > 0 && ciphertext.length % blockLength === 0;
}

/** The number of bytes of ciphertext for so many bytes of plaintext: there is always at least one byte of padding. */
export function encryptedLength(plaintextLength: number): number {
  return plaintextLength - (plaintextLength % blockLength) + blockLength;
}

/** What decryption gave; without `paddingOk` the plaintext is meaningless, and all of it is there, padding included. */
export interface Decrypted {
  readonly plaintext: Buffer;
  readonly paddingOk: boolean;
}

/**
 * Decrypts AES-256-CBC with PKCS#7 padding (RFC 5652 §6.3). Never throws: a ciphertext that is not whole blocks is
 * `'length'`. Bad padding is not an outcome of its own, so that a caller who must not become a padding oracle can
 * check the plaintext in either case, and only then decide.
 */
export function decrypt(credentials: Credentials, ciphertext: Buffer): Decrypted | 'length' {
  if (!isWholeBlocks(ciphertext)) return 'length';
  const decipher = createDecipheriv(algorithm, credentials.key, credentials.iv);
  decipher.setAutoPadding(false);
  // Without padding to hold back, `update` gives every block at once and nothing is left for `final`.
  const padded = decipher.update(ciphertext);
  const padding = paddingLength(padded);
  return { plaintext: padded.subarray(0, padded.length - padding), paddingOk: padding !== 0 };
}

/** Encrypts with AES-256-CBC and PKCS#7 padding. */
export function encrypt(credentials: Credentials, plaintext: Buffer): Buffer {
  const cipher = createCipheriv(algorithm, credentials.key, credentials.iv);
  return Buffer.concat([cipher.update(plaintext), cipher.final()]);
}

/** Encrypts piece by piece: the pieces put together are what `encrypt` gives for the whole. */
export interface Encryptor {
  update(chunk: Buffer): Buffer;
  final(): Buffer;
}

export function createEncryptor(credentials: Credentials): Encryptor {
  return createCipheriv(algorithm, credentials.key, credentials.iv);
}

/** The length of the PKCS#7 padding, 1–16, or 0 where it is bad. Looks at the whole last block whatever it holds. */
function paddingLength(padded: Buffer): number {
  const length = padded.readUInt8(padded.length - 1);
  // A negative difference has its sign bit set: these are comparisons without a branch.
  let bad = (blockLength - length) >> 31;
  for (let fromEnd = 1; fromEnd <= blockLength; fromEnd += 1) {
    const isPadding = (fromEnd - 1 - length) >> 31;
    bad |= isPadding & (padded.readUInt8(padded.length - fromEnd) ^ length);
  }
  return bad === 0 ? length : 0;
}
