import { AesCbc } from './aes-cbc.ts';
import { hintForCiphertext, slipOfCiphertext } from './ciphertext-hints.ts';
import type { Credentials } from './credentials.ts';
import { diagnose } from './diagnosis.ts';
import { decodeCiphertext } from './encoding.ts';
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
