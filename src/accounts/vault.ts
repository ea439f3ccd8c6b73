import { createCipheriv, createDecipheriv, randomBytes, type KeyObject } from 'node:crypto';
import { AccountsError } from './accounts-error.ts';
import type { EnvironmentName } from './api-key.ts';
import { keysFor, masterKeyMissing, openedKey, type MasterKey } from './master-key.ts';
import { cryptography } from '../cryptography.ts';

/** The place of a wrapped string, which can be unwrapped only there. Previous credentials have the same place as the current ones. */
export interface Place {
  readonly account: string;
  readonly environment: EnvironmentName;
  readonly member: 'key' | 'iv';
}

const marker = 'sealed:v1:';
const { algorithm } = cryptography.vault;
const nonceLength = 12;
const tagLength = 16;

/** Whether a stored string is wrapped with a master key. */
export function isWrapped(text: string): boolean {
  return text.startsWith(marker);
}

/**
 * Wraps key material before it is stored and unwraps it afterwards. A wrapped string consists of `sealed:v1:` and the base64url of the
 * nonce, ciphertext and tag of AES-256-GCM. The place is authenticated, so that the string cannot be unwrapped elsewhere. Nonces are
 * random, which is safe for 2³² strings per master key (NIST SP 800-38D §8.3).
 */
export class Vault {
  readonly #keys: Readonly<Record<EnvironmentName, readonly MasterKey[] | undefined>> | AccountsError;

  /**
   * @param masterKeys the master keys or, if they could not be read, the error to throw when one of them is needed. If there are no keys,
   *   strings stay in the clear, which only a file store allows
   */
  constructor(masterKeys: readonly MasterKey[] | AccountsError) {
    this.#keys =
      masterKeys instanceof AccountsError
        ? masterKeys
        : { test: keysFor('test', masterKeys), live: keysFor('live', masterKeys) };
  }

  /** The keys of an environment, starting with the one that wraps. */
  #getKeys(environment: EnvironmentName): readonly KeyObject[] {
    if (this.#keys instanceof AccountsError) throw this.#keys;
    const keys = this.#keys[environment];
    if (keys === undefined) throw masterKeyMissing(environment);
    return keys.map(openedKey);
  }

  /** Whether this vault is meant for the credentials of an environment. It is not if all its keys are for the other environment. */
  isFor(environment: EnvironmentName): boolean {
    return this.#keys instanceof AccountsError || this.#keys[environment] !== undefined;
  }

  /** The key check values of an environment's keys, in the same order as the keys. */
  checkValues(environment: EnvironmentName): readonly string[] {
    return this.#keys instanceof AccountsError ? [] : (this.#keys[environment] ?? []).map(({ kcv }) => kcv);
  }

  /** Whether the master key that `other` wraps with is one of this vault's keys, and whether it is the first of them. */
  holds(other: Vault, environment: EnvironmentName): 'first' | 'other' | 'none' {
    if (!this.isFor(environment)) return 'none';
    const [key] = other.#getKeys(environment);
    const place = this.#getKeys(environment).findIndex((each) => key?.equals(each) === true);
    if (place === -1) return 'none';
    return place === 0 ? 'first' : 'other';
  }

  /** Whether one of the master keys opens a wrapped string. */
  opens(text: string, place: Place): boolean {
    const bytes = Buffer.from(text.slice(marker.length), 'base64url');
    return (
      this.isFor(place.environment) &&
      this.#getKeys(place.environment).some((key) => unwrapWith(key, bytes, place) !== undefined)
    );
  }

  /** Whether a string is stored as `wrap` would store it now: with the first master key, or in the clear if there is none. */
  isCurrent(text: string, place: Place): boolean {
    const [key] = this.#getKeys(place.environment);
    if (key === undefined || !isWrapped(text)) return key === undefined && !isWrapped(text);
    return unwrapWith(key, Buffer.from(text.slice(marker.length), 'base64url'), place) !== undefined;
  }

  /** Returns the string to store, which is wrapped if there is a master key and unchanged if there is none. */
  wrap(text: string, place: Place): string {
    const [key] = this.#getKeys(place.environment);
    if (key === undefined) return text;
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv(algorithm, key, nonce).setAAD(encodePlace(place));
    const wrapped = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return marker + wrapped.toString('base64url');
  }

  /**
   * Unwraps a string. A string that is not wrapped is returned unchanged.
   *
   * @throws AccountsError `master_key_missing`, `master_key_wrong`
   */
  unwrap(text: string, place: Place): string {
    if (!isWrapped(text)) return text;
    const subject = `the sealed ${place.member} of account ${place.account} in ${place.environment}`;
    const keys = this.#getKeys(place.environment);
    if (keys.length === 0) {
      throw new AccountsError('master_key_missing', `${subject} needs the master key: set accounts.masterKey`);
    }
    const written = text.slice(marker.length);
    const bytes = Buffer.from(written, 'base64url');
    // Node's decoder skips unknown characters, so the string is compared with its re-encoded bytes.
    const isWhole = bytes.toString('base64url') === written;
    for (const key of keys) {
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
    .setAAD(encodePlace(place))
    .setAuthTag(bytes.subarray(-tagLength));
  const opened = decipher.update(bytes.subarray(nonceLength, -tagLength));
  try {
    return Buffer.concat([opened, decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

/** No part of a place can contain a zero byte, so different places are always encoded differently. */
function encodePlace({ account, environment, member }: Place): Buffer {
  return Buffer.from(['envelope-sidecar', 'v1', account, environment, member].join('\0'));
}
