import { createHash, createSecretKey, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';
import { cryptography } from '../cryptography.ts';

/** The names of the formats as stored with credentials; `formats.ts` defines them. */
export const formatNames = ['text', 'base64'] as const;
export type FormatName = (typeof formatNames)[number];

/**
 * The key and IV of one account in one environment, with the lengths of their format. Inspecting or serialising shows
 * neither.
 */
export class Credentials {
  readonly format: FormatName;
  readonly #key: KeyObject;
  readonly #iv: Buffer;

  constructor(format: FormatName, key: Buffer | KeyObject, iv: Buffer) {
    this.format = format;
    this.#key = Buffer.isBuffer(key) ? createSecretKey(key) : key;
    this.#iv = iv;
  }

  get key(): KeyObject {
    return this.#key;
  }

  get iv(): Buffer {
    return this.#iv;
  }

  /** The first 16 hex digits of SHA-256 over the bytes of the key and the IV, by which both sides name credentials. */
  get fingerprint(): string {
    return createHash(cryptography.digest.algorithm)
      .update(this.#key.export())
      .update(this.#iv)
      .digest('hex')
      .slice(0, 16);
  }
}

/**
 * New random strings for `format: text`: a key of 32 and an IV of 16 characters. They are base64 too, of 192 and 96
 * random bits, so that nothing in them needs quoting in a shell, a header or a YAML file.
 */
export function generateCredentials(): { key: string; iv: string; format: FormatName; fingerprint: string } {
  const [key, iv] = [randomBytes(24).toString('base64'), randomBytes(12).toString('base64')];
  const { format, fingerprint } = new Credentials('text', Buffer.from(key), Buffer.from(iv));
  return { key, iv, format, fingerprint };
}

/**
 * Whether two credentials have the same key. An IV is not secret, so one key with two IVs is as dangerous as one pair
 * used twice. Takes the same time wherever the keys differ.
 */
export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return timingSafeEqual(a.key.export(), b.key.export());
}
