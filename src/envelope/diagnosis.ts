import { createDecipheriv, createHash } from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import { AesCbc, blockLength, paddingLength } from './aes-cbc.ts';
import { hintForCiphertext, slipOfCiphertext } from './ciphertext-hints.ts';
import type { Credentials } from './credentials.ts';
import { decodeBase64, decodeCiphertext } from './encoding.ts';
import { isJson } from './json.ts';

/** A ciphertext that was decrypted to JSON, or why it could not be. */
export type Trial = { readonly plaintext: Buffer } | { readonly cause: string };

/**
 * Decrypts the string of an envelope for a caller that has the key and may therefore learn about the padding.
 *
 * @param key of `credentials`, 32 bytes of UTF-8
 * @param iv  of `credentials`, 16 characters or more
 */
export function tryToDecrypt(data: string, credentials: Credentials, key: string, iv: string): Trial {
  const ciphertext = decodeCiphertext(data);
  const decrypted = ciphertext === undefined ? 'length' : new AesCbc(credentials).decrypt(ciphertext);
  if (ciphertext === undefined || decrypted === 'length') return { cause: hintForCiphertext(data) };
  if (decrypted.paddingOk && isJson(decrypted.plaintext)) return { plaintext: decrypted.plaintext };
  return { cause: slipOfCiphertext(data) ?? diagnose(ciphertext, key, iv) };
}

/** A value that a merchant's code may have used by mistake. An empty name means the right value. */
interface Guess {
  readonly name: string;
  readonly bytes: Buffer;
}

/**
 * Explains why a ciphertext does not open with the sender's key and IV: tries common mistakes and names the one that
 * matches. Only for callers that sent the key themselves, because it distinguishes padding from JSON.
 *
 * @param ciphertext whole blocks, one at least, that did not decrypt to JSON under `key` and `iv`
 * @param key        32 bytes of UTF-8
 * @param iv         as sent, 16 characters or more
 */
export function diagnose(ciphertext: Buffer, key: string, iv: string): string {
  const given = Buffer.from(iv.slice(0, blockLength));
  const padded = decrypt('cbc', Buffer.from(key), given, ciphertext);
  return (
    slipOfPlaintext(padded) ??
    slipOfCredentials(ciphertext, key, iv) ??
    slipOfIv(padded) ??
    (paddingLength(padded) === 0
      ? 'the padding is wrong: check key, IV and PKCS#7'
      : 'the plaintext is not JSON: it decrypts with this key and IV')
  );
}

/** The mistake in a plaintext that key and IV decrypt correctly. */
function slipOfPlaintext(padded: Buffer): string | undefined {
  const padding = paddingLength(padded);
  if (padding === 0) return slipOfPadding(padded);
  const plaintext = padded.subarray(0, padded.length - padding);
  if (plaintext.length === 0) return 'the plaintext is empty: send a JSON value, or no body at all';
  if (plaintext.toString('latin1', 0, 3) === '\xef\xbb\xbf')
    return 'the plaintext begins with a byte order mark: encode UTF-8 without one';
  if (isUtf16(plaintext)) return 'the plaintext is UTF-16: encode it as UTF-8';
  if (!isUtf8(plaintext) && isJson(Buffer.from(plaintext.toString('latin1')))) {
    return 'the plaintext is Latin-1: encode it as UTF-8';
  }
  const again = paddingLength(plaintext);
  if (again !== 0 && isJson(plaintext.subarray(0, plaintext.length - again))) {
    return 'the plaintext is padded twice: the library pads by itself';
  }
  return undefined;
}

/** The IV changes only the first block (NIST SP 800-38A §6.2). */
function slipOfIv(padded: Buffer): string | undefined {
  const rest = padded.toString('utf8', blockLength, padded.length - paddingLength(padded));
  const isText = /^\ufffd{0,3}[^\p{Cc}\ufffd]*["\]}\d]$/u.test(rest);
  return isText ? 'the IV is wrong: the key is right, and only the first 16 bytes came out wrong' : undefined;
}

function isUtf16(plaintext: Buffer): boolean {
  if (plaintext.length % 2 !== 0) return false;
  return [plaintext, Buffer.from(plaintext).swap16()].some((bytes) =>
    isJson(Buffer.from(bytes.toString('utf16le').replace(/^\ufeff/, ''))),
  );
}

/** Paddings other than PKCS#7. */
function slipOfPadding(padded: Buffer): string | undefined {
  const last = padded.at(-1) ?? 0;
  if (last === 0) {
    let end = padded.length;
    while (end > 0 && padded[end - 1] === 0) end -= 1;
    if (isJson(padded.subarray(0, end))) return 'the padding is NUL bytes: use PKCS#7';
  }
  if (last > 0 && last <= blockLength && isJson(padded.subarray(0, padded.length - last))) {
    return 'the padding is X9.23: use PKCS#7';
  }
  if (last > blockLength && last <= 2 * blockLength && isJson(padded.subarray(0, padded.length - last))) {
    return 'the padding is to blocks of 32 bytes: AES pads to 16';
  }
  if (isJson(padded)) return last === 0x20 ? 'the padding is spaces: use PKCS#7' : 'the padding is missing: use PKCS#7';
  return undefined;
}

/** The other key, IV or mode that opens it. */
function slipOfCredentials(ciphertext: Buffer, key: string, iv: string): string | undefined {
  const keys = keysFor(key);
  for (const usedKey of keys) {
    for (const usedIv of ivsFor(iv)) {
      if (usedKey.name === '' && usedIv.name === '') continue;
      if (opens(decrypt('cbc', usedKey.bytes, usedIv.bytes, ciphertext))) return named(usedKey, usedIv.name);
    }
    // The IV may precede the ciphertext: its first block is then the IV of the second.
    if (ciphertext.length > blockLength && opens(behindFirstBlock(usedKey.bytes, ciphertext))) {
      return named(
        usedKey,
        'the IV stands in front of the ciphertext, or a random one was used: use the one you were given',
      );
    }
    if (opens(decrypt('ecb', usedKey.bytes, null, ciphertext))) return named(usedKey, 'the mode is ECB: use CBC');
  }
  return undefined;
}

function named({ name }: Guess, other: string): string {
  return [name, other].filter((part) => part !== '').join('; and ');
}

function keysFor(key: string): readonly Guess[] {
  const bytes = Buffer.from(key);
  const decoded = decodeBase64(key);
  const digest = createHash('sha256').update(bytes).digest();
  return possible([
    { name: '', bytes },
    {
      name: 'the key was decoded from base64, so that AES-192 was used: pass its 32 characters as bytes',
      bytes: decoded?.length === 24 ? decoded : undefined,
    },
    {
      name: 'the key was decoded from hex, so that AES-128 was used: pass its 32 characters as bytes',
      bytes: decodeHexBlock(key),
    },
    { name: 'the key was hashed with SHA-256: pass its characters as bytes', bytes: digest },
    {
      name: 'the key was hashed with SHA-256 and written in hex: pass its characters as bytes',
      bytes: Buffer.from(digest.toString('hex').slice(0, 32)),
    },
    { name: 'AES-128 was used with the first 16 characters of the key: use AES-256', bytes: bytes.subarray(0, 16) },
    { name: 'AES-192 was used with the first 24 characters of the key: use AES-256', bytes: bytes.subarray(0, 24) },
  ]);
}

function ivsFor(iv: string): readonly Guess[] {
  const decoded = decodeBase64(iv);
  const padded = decoded?.length === 12 ? Buffer.concat([decoded, Buffer.alloc(4)]) : decoded;
  return possible([
    { name: '', bytes: Buffer.from(iv.slice(0, blockLength)) },
    {
      name: 'the IV was decoded from base64: pass its first 16 characters as bytes',
      bytes: padded?.length === blockLength ? padded : undefined,
    },
    { name: 'the IV was decoded from hex: pass its first 16 characters as bytes', bytes: decodeHexBlock(iv) },
    { name: 'the IV was all zero bytes: use the one you were given', bytes: Buffer.alloc(blockLength) },
  ]);
}

/** Without the mistakes that are impossible with this key or IV. */
function possible(guesses: readonly { readonly name: string; readonly bytes: Buffer | undefined }[]): readonly Guess[] {
  return guesses.filter((guess): guess is Guess => guess.bytes !== undefined);
}

function decodeHexBlock(text: string): Buffer | undefined {
  return /^[0-9A-Fa-f]{32}$/.test(text) ? Buffer.from(text, 'hex') : undefined;
}

/** The blocks, padding and all. */
function decrypt(mode: 'cbc' | 'ecb', key: Buffer, iv: Buffer | null, ciphertext: Buffer): Buffer {
  return createDecipheriv(`aes-${key.length * 8}-${mode}`, key, iv)
    .setAutoPadding(false)
    .update(ciphertext);
}

function behindFirstBlock(key: Buffer, ciphertext: Buffer): Buffer {
  return decrypt('cbc', key, ciphertext.subarray(0, blockLength), ciphertext.subarray(blockLength));
}

/** Whether the blocks are PKCS#7 over JSON. */
function opens(padded: Buffer): boolean {
  const padding = paddingLength(padded);
  return padding > 0 && isJson(padded.subarray(0, padded.length - padding));
}
