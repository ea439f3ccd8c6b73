import type { Cipheriv } from 'node:crypto';
import { AesCbc, encryptedLength, isWholeBlocks } from './aes-cbc.ts';
import { hintForCiphertext } from './ciphertext-hints.ts';
import { envelopeHead, envelopeTail } from './codec.ts';
import type { EnvelopeCodec, OpenReason, PackedCodec, SealStream } from './codec.ts';
import type { Credentials } from './credentials.ts';
import { decodeCiphertext, type Encoding } from './encoding.ts';
import { isJson } from './json.ts';

/** AES-256-CBC with PKCS#7 and one IV for all messages, in hex or base64: the format of merchants' systems. */
export class AesCbcCodec implements EnvelopeCodec {
  readonly #credentials: Credentials;
  readonly #encoding: Encoding;
  #lazyAes: AesCbc | undefined;

  /** @param encoding of sealed envelopes; either is accepted when opening */
  constructor(credentials: Credentials, encoding: Encoding) {
    this.#credentials = credentials;
    this.#encoding = encoding;
  }

  /** Whether a string decodes to whole blocks in either encoding. */
  static looksLikeCiphertext(data: string): boolean {
    const ciphertext = decodeCiphertext(data);
    return ciphertext !== undefined && isWholeBlocks(ciphertext);
  }

  pack(): PackedCodec {
    const { format, key, iv } = this.#credentials;
    return { format, key, iv, encoding: this.#encoding };
  }

  open(data: string): Buffer | OpenReason {
    const ciphertext = decodeCiphertext(data);
    if (ciphertext === undefined) return 'encoding';
    const decrypted = this.#aes.decrypt(ciphertext);
    if (decrypted === 'length') return 'length';
    // Bad padding must not take less time than bad JSON, so the plaintext is parsed in either case.
    const json = isJson(decrypted.plaintext);
    if (!decrypted.paddingOk) return 'padding';
    return json ? decrypted.plaintext : 'not_json';
  }

  seal(plaintext: Buffer): string {
    return envelopeHead + this.#aes.encrypt(plaintext).toString(this.#encoding) + envelopeTail;
  }

  sealedLength(plaintextLength: number): number {
    const bytes = encryptedLength(plaintextLength);
    const digits = this.#encoding === 'hex' ? bytes * 2 : Math.ceil(bytes / 3) * 4;
    return envelopeHead.length + digits + envelopeTail.length;
  }

  stream(): SealStream {
    return new AesCbcSealStream(this.#aes.encryptor(), this.#encoding);
  }

  hint(data: string): string {
    return hintForCiphertext(data);
  }

  /** Created at the first use: most accounts of a long list are inactive. */
  get #aes(): AesCbc {
    return (this.#lazyAes ??= new AesCbc(this.#credentials));
  }
}

class AesCbcSealStream implements SealStream {
  readonly #encryptor: Cipheriv;
  readonly #encoding: Encoding;
  #head = envelopeHead;
  /** Up to two bytes of ciphertext that do not fill a group of base64 yet. */
  #carry: Buffer = Buffer.alloc(0);

  constructor(encryptor: Cipheriv, encoding: Encoding) {
    this.#encryptor = encryptor;
    this.#encoding = encoding;
  }

  update(chunk: Buffer): string {
    return this.#encode(this.#encryptor.update(chunk));
  }

  end(): string {
    return this.#encode(this.#encryptor.final()) + this.#carry.toString(this.#encoding) + envelopeTail;
  }

  /** The next piece of the envelope; the first one has its head. */
  #encode(ciphertext: Buffer): string {
    const head = this.#head;
    this.#head = '';
    if (this.#encoding === 'hex') return head + ciphertext.toString('hex');
    const bytes = Buffer.concat([this.#carry, ciphertext]);
    const whole = bytes.length - (bytes.length % 3);
    this.#carry = bytes.subarray(whole);
    return head + bytes.toString('base64', 0, whole);
  }
}
