import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import { decodeBase64 } from '../envelope/encoding.ts';
import { AccountsError } from './accounts-error.ts';
import type { EnvironmentName } from './api-key.ts';

/**
 * The place of a wrapped text, which can be unwrapped only there. Previous credentials keep the place they had as
 * current ones.
 */
export interface Place {
  readonly account: string;
  readonly environment: EnvironmentName;
  readonly member: 'key' | 'iv';
}

const marker = 'sealed:v1:';
const algorithm = 'aes-256-gcm';
const keyLength = 32;
const nonceLength = 12;
const tagLength = 16;

/** Whether a stored text is wrapped with a master key. */
export function isWrapped(text: string): boolean {
  return text.startsWith(marker);
}

/**
 * Reads master keys, one per line, each of 32 bytes in base64 or hex. The first one wraps and each unwraps, so that the
 * key can be changed while sidecars run. Undefined if the text is invalid.
 */
export function parseMasterKeys(text: string): readonly KeyObject[] | undefined {
  const keys = text
    .trim()
    .split(/\s*\n\s*/)
    .map((line) => (/^[0-9A-Fa-f]{64}$/.test(line) ? Buffer.from(line, 'hex') : decodeBase64(line)));
  if (!keys.every((key) => key?.length === keyLength)) return undefined;
  return keys.map((key) => clearedKey(key as Buffer));
}

/** A key of these bytes, which are overwritten: Node uses their memory again without clearing it. */
function clearedKey(bytes: Buffer): KeyObject {
  const key = createSecretKey(bytes);
  bytes.fill(0);
  return key;
}

/**
 * Wraps key material before it is stored and unwraps it afterwards: `sealed:v1:` and the base64url of nonce, ciphertext
 * and tag of AES-256-GCM. The place is authenticated, so that a wrapped text cannot be unwrapped elsewhere. Nonces are
 * random, which is safe for 2³² texts per master key (NIST SP 800-38D §8.3).
 */
export class Vault {
  readonly #masterKeys: readonly KeyObject[] | AccountsError;

  /**
   * @param masterKeys none: texts stay in the clear, which only a file store allows; an error: they cannot be read, which
   *   is thrown once one of them is needed
   */
  constructor(masterKeys: readonly KeyObject[] | AccountsError) {
    this.#masterKeys = masterKeys;
  }

  get #keys(): readonly KeyObject[] {
    if (this.#masterKeys instanceof AccountsError) throw this.#masterKeys;
    return this.#masterKeys;
  }

  /** Whether the master key that `other` wraps with is one of these, and whether it is the first of them. */
  holds(other: Vault): 'first' | 'other' | 'none' {
    const [key] = other.#keys;
    const place = this.#keys.findIndex((each) => key?.equals(each) === true);
    if (place === -1) return 'none';
    return place === 0 ? 'first' : 'other';
  }

  /** Whether a text is stored as `wrap` would store it now: with the first master key, or in the clear if there is none. */
  isCurrent(text: string, place: Place): boolean {
    const [key] = this.#keys;
    if (key === undefined || !isWrapped(text)) return key === undefined && !isWrapped(text);
    return unwrapWith(key, Buffer.from(text.slice(marker.length), 'base64url'), place) !== undefined;
  }

  /** The text to store: wrapped or, without a master key, unchanged. */
  wrap(text: string, place: Place): string {
    const [key] = this.#keys;
    if (key === undefined) return text;
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv(algorithm, key, nonce).setAAD(nameOf(place));
    const wrapped = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return marker + wrapped.toString('base64url');
  }

  /**
   * The unwrapped text. A text that is not wrapped is returned unchanged.
   *
   * @throws AccountsError `master_key_missing`, `master_key_wrong`
   */
  unwrap(text: string, place: Place): string {
    if (!isWrapped(text)) return text;
    const subject = `the sealed ${place.member} of account ${place.account} in ${place.environment}`;
    if (this.#keys.length === 0) {
      throw new AccountsError('master_key_missing', `${subject} needs the master key: set accounts.masterKey`);
    }
    const written = text.slice(marker.length);
    const bytes = Buffer.from(written, 'base64url');
    // Node's decoder skips unknown characters.
    const isWhole = bytes.toString('base64url') === written;
    for (const key of this.#keys) {
      const unwrapped = isWhole ? unwrapWith(key, bytes, place) : undefined;
      if (unwrapped !== undefined) return unwrapped;
    }
    throw new AccountsError(
      'master_key_wrong',
      `${subject} does not open: it was sealed with another master key, or for another account, environment or member`,
    );
  }
}

function unwrapWith(key: KeyObject, bytes: Buffer, place: Place): string | undefined {
  if (bytes.length < nonceLength + tagLength) return undefined;
  const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceLength), { authTagLength: tagLength })
    .setAAD(nameOf(place))
    .setAuthTag(bytes.subarray(-tagLength));
  const opened = decipher.update(bytes.subarray(nonceLength, -tagLength));
  try {
    return Buffer.concat([opened, decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

/** No part can contain a zero byte, so every place has a different name. */
function nameOf({ account, environment, member }: Place): Buffer {
  return Buffer.from(['envelope-sidecar', 'v1', account, environment, member].join('\0'));
}
