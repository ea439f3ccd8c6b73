/**
 * Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.
 *
 * The core of the kit: one file that needs only node:crypto and may be copied. Version 0.2.0, MIT licence.
 */
import { Buffer } from 'node:buffer';
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';

/** How the strings of key and IV are read: as they are, or decoded from base64. */
export type KeyText = 'text' | 'base64';
/** How `seal` writes. `open` reads both. */
export type Encoding = 'hex' | 'base64';

/** The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext. */
const flaws = {
  empty: 'is empty',
  decoded: 'was decoded: pass the string as you were given it',
  nul: 'contains NUL bytes: pass the string as you were given it',
  quoted: 'is in quotes: remove them',
  space: 'begins or ends with white space: remove it',
  pem: 'is a PEM file: pass the string of 32 characters',
  api_key: 'is an API key: pass the encryption key and its IV',
  hex: 'is in hex: pass the string as you were given it',
  base64: 'is in base64: set the key text to base64, or pass the string of 32 characters',
  not_base64: 'is not base64, which the key text says',
  length: 'has the wrong length: a key has 32 bytes, an IV 16',
} as const;
type Flaw = keyof typeof flaws;

/** Credentials that cannot be right, text that cannot be sealed, or data that does not open. */
export class EnvelopeError extends Error {
  override readonly name = 'EnvelopeError';
  /** For example `key_quoted`, `malformed` or `decryption_failed`. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

export interface EnvelopeOptions {
  readonly key: string;
  readonly iv: string;
  /** Default: text. */
  readonly keyText?: KeyText;
  /** Default: hex. */
  readonly encoding?: Encoding;
}

const hexDigits = /^[0-9a-fA-F]*$/;

/** Seals and opens with the credentials of one account in one environment. Printing it shows neither key nor IV. */
export class Envelope {
  /** Names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes). */
  readonly fingerprint: string;
  readonly #key: Buffer;
  readonly #iv: Buffer;
  readonly #encoding: Encoding;

  /** @throws EnvelopeError if the key or the IV cannot be right; its code names the mistake */
  constructor({ key, iv, keyText = 'text', encoding = 'hex' }: EnvelopeOptions) {
    [this.#key, this.#iv] = keyText === 'base64' ? readBase64(key, iv) : readText(key, iv);
    this.#encoding = encoding;
    this.fingerprint = createHash('sha256').update(this.#key).update(this.#iv).digest('hex').slice(0, 16);
  }

  /**
   * The ciphertext of a JSON text, without the object around it.
   *
   * @throws EnvelopeError `not_utf8`
   */
  seal(text: string): string {
    if (typeof text !== 'string' || !text.isWellFormed())
      throw new EnvelopeError('not_utf8', 'the text is not Unicode');
    const cipher = createCipheriv('aes-256-cbc', this.#key, this.#iv);
    return cipher.update(text, 'utf8', this.#encoding) + cipher.final(this.#encoding);
  }

  /** @throws EnvelopeError `not_json` for a value that JSON cannot express */
  sealJson(value: unknown): string {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new EnvelopeError('not_json', 'the value has no JSON');
    return this.seal(text);
  }

  /**
   * The text that was sealed, from hex or base64.
   *
   * @throws EnvelopeError `malformed` or `decryption_failed`
   */
  open(data: string): string {
    const ciphertext = decode(data);
    try {
      const decipher = createDecipheriv('aes-256-cbc', this.#key, this.#iv);
      const plaintext = Buffer.concat([decipher.update(ciphertext), decipher.final()]);
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(plaintext);
    } catch {
      // The reason would reveal whether the padding or the text is wrong, and is of no use.
      throw new EnvelopeError('decryption_failed', 'wrong key or IV, or the data was changed on the way');
    }
  }

  /** @throws EnvelopeError as `open`, or `not_json` */
  openJson(data: string): unknown {
    const text = this.open(data);
    try {
      return JSON.parse(text);
    } catch {
      throw new EnvelopeError('not_json', 'the plaintext is not JSON');
    }
  }

  /** The body of a request: `{"data":"…"}`. */
  sealBody(text: string): string {
    return `{"data":"${this.seal(text)}"}`;
  }

  /** Opens the body of a response, which must be an object whose only member is `data`, and returns the text. */
  openBody(body: string): string {
    const [, data] = /^\s*\{\s*"data"\s*:\s*"([0-9A-Za-z+/=]*)"\s*\}\s*$/.exec(body) ?? [];
    if (data === undefined) throw new EnvelopeError('malformed', 'the body is not {"data":"…"}');
    return this.open(data);
  }

  /** Returns `""` for text that cannot be sealed, and null for data that does not open, instead of throwing. */
  compat(): { seal(text: string): string; open(data: string): string | null } {
    const or = <T, U>(run: () => T, otherwise: U): T | U => {
      try {
        return run();
      } catch {
        return otherwise;
      }
    };
    return { seal: (text) => or(() => this.seal(text), ''), open: (data) => or(() => this.open(data), null) };
  }

  toString(): string {
    return `Envelope(${this.fingerprint})`;
  }

  toJSON(): string {
    return this.toString();
  }
}

function readText(key: string, iv: string): [key: Buffer, iv: Buffer] {
  refuseFlaws(key, iv);
  const keyBytes = Buffer.from(key);
  const ivBytes = Buffer.from(iv.slice(0, 16));
  if (keyBytes.length === 16 && Buffer.byteLength(iv) === 32) swapped();
  if (/^[0-9a-fA-F]{64}$/.test(key)) refuse('key', 'hex');
  if (/^[A-Za-z0-9+/]{43}=$/.test(key)) refuse('key', 'base64');
  if (keyBytes.length === 24) refuse('key', 'decoded');
  if (keyBytes.length !== 32) refuse('key', 'length');
  if (key === iv) throw new EnvelopeError('iv_is_key', 'the IV is the key');
  // Only the hex of printable text is refused, because other hex digits may well be an IV.
  if (/^(?:[2-6][0-9a-fA-F]|7[0-9a-eA-E]){16}$/.test(iv)) refuse('iv', 'hex');
  if (Buffer.byteLength(iv) === 12) refuse('iv', 'decoded');
  if (ivBytes.length !== 16) refuse('iv', 'length');
  return [keyBytes, ivBytes];
}

function readBase64(key: string, iv: string): [key: Buffer, iv: Buffer] {
  refuseFlaws(key, iv);
  const [keyBytes, ivBytes] = [strictBase64(key), strictBase64(iv)];
  if (keyBytes?.length === 16 && ivBytes?.length === 32) swapped();
  if (keyBytes === undefined) refuse('key', 'not_base64');
  if (keyBytes.length !== 32) refuse('key', 'length');
  if (ivBytes === undefined) refuse('iv', 'not_base64');
  if (ivBytes.length !== 16) refuse('iv', 'length');
  return [keyBytes, ivBytes];
}

/** Refuses strings that are wrong in either format. */
function refuseFlaws(key: string, iv: string): void {
  for (const [name, value] of [['key', key] as const, ['iv', iv] as const]) {
    const flaw = flawOf(value);
    if (flaw !== undefined) refuse(name, flaw);
  }
}

function flawOf(value: unknown): Flaw | undefined {
  if (value === undefined || value === null || value === '') return 'empty';
  if (typeof value !== 'string' || value.includes('\ufffd') || !value.isWellFormed()) return 'decoded';
  if (value.includes('\0')) return 'nul';
  if (/^(["']).*\1$/s.test(value)) return 'quoted';
  if (/^[ \t\r\n]|[ \t\r\n]$/.test(value)) return 'space';
  if (value.startsWith('-----BEGIN')) return 'pem';
  return /^[ps]k_(?:test|live)_/.test(value) ? 'api_key' : undefined;
}

function refuse(name: 'key' | 'iv', flaw: Flaw): never {
  throw new EnvelopeError(`${name}_${flaw}`, `the ${name === 'key' ? 'key' : 'IV'} ${flaws[flaw]}`);
}

function swapped(): never {
  throw new EnvelopeError('swapped', 'the key and the IV are swapped');
}

/** Hex digits in either case are read as hex, everything else as base64. */
function decode(data: string): Buffer {
  const bytes = hexDigits.test(data) && data.length % 2 === 0 ? Buffer.from(data, 'hex') : strictBase64(data);
  if (bytes === undefined) throw new EnvelopeError('malformed', 'the data is neither hex nor base64');
  if (bytes.length === 0 || bytes.length % 16 !== 0) {
    throw new EnvelopeError('malformed', 'the data is not a whole number of blocks: was it cut?');
  }
  return bytes;
}

/** Node skips what is not base64, so the text is valid only if encoding the bytes yields it again. */
function strictBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.toString('base64') === text ? bytes : undefined;
}

const demo = { key: 'demo-key-of-acme-not-a-secret-32', iv: 'demo-iv-of-acme-' } as const;
const sealed = [
  ['hex', '{"amount":1500}', 'b1cfe5cf79092760fa94b1d5aa17a154'],
  ['base64', '{"name":"Zoë €"}', 'eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g='],
] as const;
const refused = {
  cut: 'b1cfe5cf79092760fa94b1d5aa17a15400',
  padding: 'c39659865b67270102e9ded9196d0a29',
  'UTF-8': '75135cc672b20db60081c364bf80ba98',
};

/**
 * Checks this machine with vectors from OpenSSL.
 *
 * @returns how many it tried
 * @throws EnvelopeError `selftest_failed`
 */
export function selftest(): number {
  const check = (name: string, right: boolean): void => {
    if (!right) throw new EnvelopeError('selftest_failed', name);
  };
  check('fingerprint', new Envelope(demo).fingerprint === '3e2af6e2f2d786fd');
  for (const [encoding, text, data] of sealed) {
    const envelope = new Envelope({ ...demo, encoding });
    check(`seal ${encoding}`, envelope.seal(text) === data);
    check(`open ${encoding}`, envelope.open(data) === text);
  }
  for (const [name, data] of Object.entries(refused)) check(name, new Envelope(demo).compat().open(data) === null);
  return 1 + 2 * sealed.length + Object.keys(refused).length;
}
