import { blockLength, encryptedLength, isWholeBlocks, type Encryptor } from './cipher.ts';
import type { Credentials } from './credentials.ts';
import { decodeBase64, decodeCiphertext, type Encoding } from './encoding.ts';
import { isJson } from './json.ts';
import { soleData } from './sole-member.ts';

/** Why decryption failed, for the access log alone: telling `padding` from `not_json` is a CBC padding oracle. */
export type OpenReason = 'encoding' | 'length' | 'padding' | 'not_json';

/** The plaintext byte for byte, and the credentials that opened it. */
export interface Opened {
  readonly plaintext: Buffer;
  readonly credentials: Credentials;
}

export interface OpenFailure {
  readonly code: 'envelope_required' | 'envelope_malformed' | 'decryption_failed';
  /** Present with `decryption_failed`. Not for the caller. */
  readonly reason?: OpenReason;
  /** Present with `decryption_failed`: what may help the caller, told from the ciphertext as sent and nothing else. */
  readonly hint?: string;
}

/**
 * Opens the envelope in `body` with the first of `candidates` that fits: the current credentials, then those that are
 * accepted besides. The plaintext is JSON in UTF-8. Where none fits, `reason` is how far the best of them came.
 */
export function openEnvelope(body: Buffer, candidates: readonly Credentials[]): Opened | OpenFailure {
  // Latin-1 is the cheapest string of bytes. What it makes of bytes that are not ASCII does not matter here: a string
  // that decodes to a ciphertext has none, and all that does not is looked at again with care.
  const data = soleData(body.toString('latin1'));
  const ciphertext = data === undefined ? undefined : decodeCiphertext(data);
  if (data === undefined || ciphertext === undefined) return whyNoCiphertext(body);

  let reason: OpenReason = 'padding';
  for (const credentials of candidates) {
    const decrypted = credentials.cipher.decrypt(ciphertext);
    if (decrypted === 'length') return decryptionFailed('length', data);
    // Bad padding must not take less time than bad JSON, so the plaintext is parsed in either case.
    const json = isJson(decrypted.plaintext);
    if (decrypted.paddingOk && json) return { plaintext: decrypted.plaintext, credentials };
    if (decrypted.paddingOk) reason = 'not_json';
  }
  return decryptionFailed(reason, data);
}

/**
 * Whether `body` is an object with the sole member `data` and a string in it, whatever the string holds: what its
 * sender meant as an envelope.
 */
export function hasEnvelopeShape(body: Buffer): boolean {
  return isJson(body) && soleData(body.toString()) !== undefined;
}

/** Whether `body` is an envelope as far as one can tell without credentials: its string decodes to whole blocks. */
export function isEnvelope(body: Buffer): boolean {
  const data = soleData(body.toString('latin1'));
  const ciphertext = data === undefined ? undefined : decodeCiphertext(data);
  return ciphertext !== undefined && isWholeBlocks(ciphertext);
}

function whyNoCiphertext(body: Buffer): OpenFailure {
  if (!isJson(body)) return { code: 'envelope_malformed' };
  const text = body.toString();
  const value: unknown = JSON.parse(text);
  const hasData = typeof value === 'object' && value !== null && Object.hasOwn(value, 'data');
  if (!hasData) return { code: 'envelope_required' };
  const data = soleData(text);
  return data === undefined ? { code: 'envelope_malformed' } : decryptionFailed('encoding', data);
}

function decryptionFailed(reason: OpenReason, data: string): OpenFailure {
  return { code: 'decryption_failed', reason, hint: hintFor(data) };
}

/**
 * What may be wrong with the string of an envelope that did not open. It is told from that string alone: what came of
 * decrypting it is not known here and so cannot leak.
 */
export function hintFor(data: string): string {
  const ciphertext = decodeCiphertext(data);
  if (ciphertext === undefined) return encodingHint(data);
  if (ciphertext.length === 0) return 'the string is empty';
  const outer = hexDigits.test(data) ? 'hex' : 'base64';
  const inner = ciphertext.toString('latin1');
  // OpenSSL's format for passphrases, which CryptoJS falls into when it is given the key as a string.
  if (inner.startsWith('Salted__')) return 'looks like passphrase encryption: the key must go in as bytes';
  if (hexDigits.test(inner)) return `looks like ${outer} of hex`;
  if (decodeBase64(inner) !== undefined) return `looks like ${outer} of base64`;
  if (!isWholeBlocks(ciphertext)) return `the ciphertext is not whole blocks of ${blockLength} bytes`;
  return 'wrong key or IV, or the plaintext is not JSON';
}

const hexDigits = /^[0-9A-Fa-f]+$/;

function encodingHint(data: string): string {
  if (hexDigits.test(data)) return 'odd number of hex digits';
  if (/\s/.test(data)) return 'white space or a line break in the string';
  if (/^[\w-]+=*$/.test(data) && /[_-]/.test(data)) return 'looks like url-safe base64: use the standard alphabet';
  if (/^[A-Za-z0-9+/]+$/.test(data) && data.length % 4 !== 1) return 'looks like base64 without its padding';
  return 'neither hex nor base64';
}

const head = '{"data":"';
const tail = '"}';

/** Seals `plaintext`: `{"data":"<ciphertext>"}`. */
export function sealEnvelope(plaintext: Buffer, credentials: Credentials, encoding: Encoding): string {
  return head + credentials.cipher.encrypt(plaintext).toString(encoding) + tail;
}

/** The exact length in bytes of the envelope for so many bytes of plaintext. */
export function sealedLength(plaintextLength: number, encoding: Encoding): number {
  const bytes = encryptedLength(plaintextLength);
  const digits = encoding === 'hex' ? bytes * 2 : Math.ceil(bytes / 3) * 4;
  return head.length + digits + tail.length;
}

/** Seals piece by piece in constant memory: the strings put together are what `sealEnvelope` gives for the whole. */
export class Sealer {
  readonly #encryptor: Encryptor;
  readonly #encoding: Encoding;
  #head = head;
  /** Bytes of ciphertext, two at most, that do not fill a group of base64 yet. */
  #carry: Buffer = Buffer.alloc(0);

  constructor(credentials: Credentials, encoding: Encoding) {
    this.#encryptor = credentials.cipher.encryptor();
    this.#encoding = encoding;
  }

  update(chunk: Buffer): string {
    return this.#takeHead() + this.#encode(this.#encryptor.update(chunk));
  }

  /** The rest of the envelope. Nothing may follow. */
  end(): string {
    const last = this.#encode(this.#encryptor.final());
    return this.#takeHead() + last + this.#carry.toString(this.#encoding) + tail;
  }

  #takeHead(): string {
    const head = this.#head;
    this.#head = '';
    return head;
  }

  #encode(ciphertext: Buffer): string {
    if (this.#encoding === 'hex') return ciphertext.toString('hex');
    const bytes = Buffer.concat([this.#carry, ciphertext]);
    const whole = bytes.length - (bytes.length % 3);
    this.#carry = bytes.subarray(whole);
    return bytes.toString('base64', 0, whole);
  }
}
