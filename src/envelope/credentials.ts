import { createSecretKey, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';
import { Cipher } from './cipher.ts';
import { decodeBase64 } from './encoding.ts';

/** The key (32 bytes) and IV (16 bytes) of one account in one environment. Shows neither when inspected or serialised. */
export class Credentials {
  readonly #key: KeyObject;
  readonly #iv: Buffer;
  #cipher: Cipher | undefined;

  /** @param key 32 bytes; @param iv 16 bytes */
  constructor(key: Buffer | KeyObject, iv: Buffer) {
    this.#key = Buffer.isBuffer(key) ? createSecretKey(key) : key;
    this.#iv = iv;
  }

  get key(): KeyObject {
    return this.#key;
  }

  get iv(): Buffer {
    return this.#iv;
  }

  /** Created at the first use: most accounts of a long list are inactive. */
  get cipher(): Cipher {
    return (this.#cipher ??= new Cipher(this.#key, this.#iv));
  }
}

/** How the strings of a merchant become bytes; see `parseCredentials`. */
export const credentialFormats = ['text', 'base64'] as const;
export type CredentialFormat = (typeof credentialFormats)[number];

/** What a member must be, as the rest of a sentence that begins with its name. Never the value. */
export interface CredentialProblem {
  readonly member: 'key' | 'iv';
  readonly message: string;
}

const keyLength = 32;
const ivLength = 16;

/**
 * Makes credentials of two strings, or lists all problems with them.
 *
 * - `text`: the UTF-8 bytes of the key, exactly 32, and of the first 16 characters of the IV, exactly 16. The IV string
 *   may be longer: merchants' code cuts it.
 * - `base64`: both in strict base64 of 32 and 16 bytes.
 */
export function parseCredentials(key: string, iv: string, format: CredentialFormat): Credentials | CredentialProblem[] {
  const text = format === 'text';
  const keyBytes = text ? Buffer.from(key) : decodeBase64(key);
  const ivBytes = text ? Buffer.from(iv.slice(0, ivLength)) : decodeBase64(iv);
  if (keyBytes?.length === keyLength && ivBytes?.length === ivLength) return new Credentials(keyBytes, ivBytes);

  const problems: CredentialProblem[] = [];
  if (keyBytes?.length !== keyLength) {
    problems.push({ member: 'key', message: text ? 'must be 32 bytes of UTF-8' : 'must be 32 bytes in base64' });
  }
  if (ivBytes?.length !== ivLength) {
    const message = text ? 'must be 16 bytes of UTF-8 in its first 16 characters' : 'must be 16 bytes in base64';
    problems.push({ member: 'iv', message });
  }
  return problems;
}

/**
 * New random strings for `format: text`: a key of 32 and an IV of 16 characters. They are base64 too, of 192 and 96
 * random bits, so that nothing in them needs quoting in a shell, a header or a YAML file.
 */
export function generateCredentials(): { key: string; iv: string } {
  return { key: randomBytes(24).toString('base64'), iv: randomBytes(12).toString('base64') };
}

/**
 * Whether two credentials are the same in the sense that matters: they share the key. An IV is no secret, so one key
 * with two IVs is as dangerous as one pair used twice. Takes the same time wherever the keys differ.
 */
export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return timingSafeEqual(a.key.export(), b.key.export());
}
