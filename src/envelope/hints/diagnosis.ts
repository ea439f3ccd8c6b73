import { AesCbc, blockLength } from '../aes-cbc.ts';
import { hintForCiphertext, findCiphertextMistake } from '../ciphertext-hints.ts';
import type { Credentials } from '../credentials.ts';
import { decodeCiphertext } from '../encoding.ts';
import { longestExamined, noHint } from './hints.ts';
import { isJson } from '../json/json.ts';
import { decrypt, findMisuse, findOtherIv } from './misuse.ts';
import { isPaddedText, findPlaintextMistake, whatComesOut } from './plaintext-hints.ts';

/**
 * Why the string of an envelope does not decrypt to JSON; undefined if it does. Only for a caller that has the key and may therefore learn
 * about the padding and the plaintext.
 *
 * @param key the key of `credentials`, 32 bytes of UTF-8
 * @param iv the IV of `credentials`, 16 characters or more
 */
export function findCause(data: string, credentials: Credentials, key: string, iv: string): string | undefined {
  if (data.length > longestExamined) return noHint;
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined || ciphertext.length === 0) return hintForCiphertext(data);
  const decrypted = new AesCbc(credentials).decrypt(ciphertext);
  if (decrypted === 'length') return findMisuse(ciphertext, key, iv) ?? hintForCiphertext(data);
  if (decrypted.paddingOk && isJson(decrypted.plaintext)) return undefined;
  return findCiphertextMistake(data) ?? diagnose(ciphertext, key, iv);
}

/**
 * Explains why a ciphertext cannot be opened with the sender's key and IV. Tries the common mistakes, and names a mistake only if it
 * accounts for the whole ciphertext. Otherwise, describes the result of decryption. Only for callers that sent the key themselves, because
 * the explanation quotes the beginning of the plaintext. It has at most 200 characters.
 *
 * @param ciphertext one or more whole blocks that did not decrypt to JSON under `key` and `iv`
 * @param key        32 bytes of UTF-8
 * @param iv         as sent, 16 characters or more
 */
export function diagnose(ciphertext: Buffer, key: string, iv: string): string {
  const padded = decrypt('cbc', Buffer.from(key), Buffer.from(iv.slice(0, blockLength)), ciphertext);
  const slip = findPlaintextMistake(padded);
  if (slip !== undefined) return slip;
  // Text followed by valid padding shows that the key is right.
  const misuse = isPaddedText(padded) ? findOtherIv(ciphertext, key, iv) : findMisuse(ciphertext, key, iv);
  return misuse ?? whatComesOut(padded);
}
