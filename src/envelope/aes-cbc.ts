import type { KeyObject } from 'node:crypto';
import { encryptedLength, isWholeBlocks, type Encryptor } from './cipher.ts';
import { envelopeHead, envelopeTail, type EnvelopeCodec, type OpenReason, type SealStream } from './codec.ts';
import { Credentials } from './credentials.ts';
import { decodeCiphertext, type Encoding } from './encoding.ts';
import { isJson } from './json.ts';

/** The form in which it is sent to another thread, which would lose its class. A key object is not copied. */
export interface PackedAesCbc {
  readonly key: KeyObject;
  readonly iv: Uint8Array;
  readonly encoding: Encoding;
}

/** AES-256-CBC with PKCS#7 and one IV for all messages, in hex or base64: the format of merchants' systems. */
export class AesCbc implements EnvelopeCodec {
  readonly credentials: Credentials;
  /** Of sealed envelopes; either is accepted when opening. */
  readonly encoding: Encoding;

  constructor(credentials: Credentials, encoding: Encoding) {
    this.credentials = credentials;
    this.encoding = encoding;
  }

  static unpack({ key, iv, encoding }: PackedAesCbc): AesCbc {
    return new AesCbc(new Credentials(key, Buffer.from(iv)), encoding);
  }

  pack(): PackedAesCbc {
    const { key, iv } = this.credentials;
    return { key, iv, encoding: this.encoding };
  }

  open(data: string): Buffer | OpenReason {
    const ciphertext = decodeCiphertext(data);
    if (ciphertext === undefined) return 'encoding';
    const decrypted = this.credentials.cipher.decrypt(ciphertext);
    if (decrypted === 'length') return 'length';
    // Bad padding must not take less time than bad JSON, so the plaintext is parsed in either case.
    const json = isJson(decrypted.plaintext);
    if (!decrypted.paddingOk) return 'padding';
    return json ? decrypted.plaintext : 'not_json';
  }

  seal(plaintext: Buffer): string {
    return envelopeHead + this.credentials.cipher.encrypt(plaintext).toString(this.encoding) + envelopeTail;
  }

  sealedLength(plaintextLength: number): number {
    const bytes = encryptedLength(plaintextLength);
    const digits = this.encoding === 'hex' ? bytes * 2 : Math.ceil(bytes / 3) * 4;
    return envelopeHead.length + digits + envelopeTail.length;
  }

  stream(): SealStream {
    return new AesCbcStream(this.credentials.cipher.encryptor(), this.encoding);
  }
}

/** Whether a string can be a ciphertext of this format, as far as one can tell without credentials: whole blocks. */
export function looksLikeAesCbc(data: string): boolean {
  const ciphertext = decodeCiphertext(data);
  return ciphertext !== undefined && isWholeBlocks(ciphertext);
}

class AesCbcStream implements SealStream {
  readonly #encryptor: Encryptor;
  readonly #encoding: Encoding;
  #head = envelopeHead;
  /** Up to two bytes of ciphertext that do not fill a group of base64 yet. */
  #carry: Buffer = Buffer.alloc(0);

  constructor(encryptor: Encryptor, encoding: Encoding) {
    this.#encryptor = encryptor;
    this.#encoding = encoding;
  }

  update(chunk: Buffer): string {
    return this.#takeHead() + this.#encode(this.#encryptor.update(chunk));
  }

  end(): string {
    const last = this.#encode(this.#encryptor.final());
    return this.#takeHead() + last + this.#carry.toString(this.#encoding) + envelopeTail;
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
