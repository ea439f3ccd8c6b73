import { AesCbc, blockLength } from './aes-cbc.ts';
import { hintForCiphertext, slipOfCiphertext } from './ciphertext-hints.ts';
import type { Credentials } from './credentials.ts';
import { decodeCiphertext } from './encoding.ts';
import { isJson } from './json.ts';
import { decrypt, misuseOf, otherIvOf } from './misuse.ts';
import { isPaddedText, slipOfPlaintext, whatComesOut } from './plaintext-hints.ts';

/** A ciphertext that was decrypted to JSON, or why it could not be. */
export type Trial = { readonly plaintext: Buffer } | { readonly cause: string };

/**
 * Decrypts the string of an envelope for a caller that has the key and may therefore learn about the padding and the plaintext.
 *
 * @param key of `credentials`, 32 bytes of UTF-8
 * @param iv  of `credentials`, 16 characters or more
 */
export function tryToDecrypt(data: string, credentials: Credentials, key: string, iv: string): Trial {
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined || ciphertext.length === 0) return { cause: hintForCiphertext(data) };
  const decrypted = new AesCbc(credentials).decrypt(ciphertext);
  if (decrypted !== 'length' && decrypted.paddingOk && isJson(decrypted.plaintext)) {
    return { plaintext: decrypted.plaintext };
  }
  if (decrypted === 'length') return { cause: misuseOf(ciphertext, key, iv) ?? hintForCiphertext(data) };
  return { cause: slipOfCiphertext(data) ?? diagnose(ciphertext, key, iv) };
}

/**
 * Explains why a ciphertext does not open with the sender's key and IV. Tries the usual mistakes, and names one only if it
 * accounts for the whole ciphertext; otherwise it says what comes out. Only for callers that sent the key themselves: it quotes the
 * beginning of the plaintext. At most 200 characters.
 *
 * @param ciphertext whole blocks, one at least, that did not decrypt to JSON under `key` and `iv`
 * @param key        32 bytes of UTF-8
 * @param iv         as sent, 16 characters or more
 */
export function diagnose(ciphertext: Buffer, key: string, iv: string): string {
  const padded = decrypt('cbc', Buffer.from(key), Buffer.from(iv.slice(0, blockLength)), ciphertext);
  const slip = slipOfPlaintext(padded);
  if (slip !== undefined) return slip;
  // Text behind which there is good padding shows that the key is right.
  const misuse = isPaddedText(padded) ? otherIvOf(ciphertext, key, iv) : misuseOf(ciphertext, key, iv);
  return misuse ?? whatComesOut(padded);
}
