import { createHash, createSecretKey, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto';
import { cryptography } from '../cryptography.ts';

/** How a key and an IV are written as strings. The store keeps this value as `format`; `formats.ts` reads the strings. */
export const keyTexts = ['text', 'base64'] as const;
export type KeyText = (typeof keyTexts)[number];

/** The algorithms for envelopes. `formats.ts` contains their codecs. */
export type AlgorithmName = typeof cryptography.envelope.algorithm;

/**
 * The key and IV of one account in one environment, in the lengths that their algorithm needs. Neither of them is shown when the object is
 * inspected or serialised.
 */
export class Credentials {
  readonly algorithm: AlgorithmName;
  readonly #key: KeyObject;
  readonly #iv: Buffer;

  constructor(algorithm: AlgorithmName, key: Buffer | KeyObject, iv: Buffer) {
    this.algorithm = algorithm;
    this.#key = Buffer.isBuffer(key) ? createSecretKey(key) : key;
    this.#iv = iv;
  }

  get key(): KeyObject {
    return this.#key;
  }

  get iv(): Buffer {
    return this.#iv;
  }

  /**
   * The first 16 hex digits of SHA-256 over the bytes of the key and the IV. Both the sidecar and merchants use them to name credentials.
   */
  get fingerprint(): string {
    return createHash(cryptography.digest.algorithm)
      .update(this.#key.export())
      .update(this.#iv)
      .digest('hex')
      .slice(0, 16);
  }
}

/**
 * Generates random strings for `format: text`: a key of 32 characters and an IV of 16 characters. They are also valid base64 (of 192 and 96
 * random bits), so nothing in them needs quoting in a shell, a header or a YAML file.
 */
export function generateCredentials(): { key: string; iv: string; format: KeyText; fingerprint: string } {
  const [key, iv] = [randomBytes(24).toString('base64'), randomBytes(12).toString('base64')];
  const { fingerprint } = new Credentials(cryptography.envelope.algorithm, Buffer.from(key), Buffer.from(iv));
  return { key, iv, format: 'text', fingerprint };
}

/**
 * Whether two credentials have the same key. The IVs are not compared, because an IV is not secret: a key that is used with two IVs is as
 * dangerous as a key that is used twice with one IV. Takes the same time wherever the keys differ.
 */
export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return timingSafeEqual(a.key.export(), b.key.export());
}
