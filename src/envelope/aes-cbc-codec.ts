import type { Cipheriv } from 'node:crypto';
import { continueWith } from '../promises.ts';
import { AesCbc, blockLength, encryptedLength, isWholeBlocks, paddingLength } from './aes-cbc.ts';
import { hintForCiphertext } from './ciphertext-hints.ts';
import { envelopeHead, envelopeTail } from './codec.ts';
import type { EnvelopeCodec, OpenReason, PackedCodec, SealStream } from './codec.ts';
import type { Credentials } from './credentials.ts';
import { decodeInSlices, type Encoding } from './encoding.ts';
import { JsonReader } from './json/json-reader.ts';
import { inSlices } from '../slices.ts';

/** AES-256-CBC with PKCS#7 and one IV for all messages, in hex or base64. This is the format of merchants' systems. */
export class AesCbcCodec implements EnvelopeCodec {
  readonly waits = false;
  readonly #credentials: Credentials;
  readonly #encoding: Encoding;
  #lazyAes: AesCbc | undefined;
  #lazyFingerprint: string | undefined;

  /** @param encoding the encoding of sealed envelopes; `open` accepts either encoding */
  constructor(credentials: Credentials, encoding: Encoding) {
    this.#credentials = credentials;
    this.#encoding = encoding;
  }

  /** Whether a string decodes to whole blocks in either encoding. */
  static looksLikeCiphertext(data: Buffer): boolean | Promise<boolean> {
    return continueWith(decodeInSlices(data), (ciphertext) => ciphertext !== undefined && isWholeBlocks(ciphertext));
  }

  get fingerprint(): string {
    return (this.#lazyFingerprint ??= this.#credentials.fingerprint);
  }

  pack(): PackedCodec {
    const { algorithm, key, iv } = this.#credentials;
    return { algorithm, key, iv, encoding: this.#encoding };
  }

  open(data: Buffer): Buffer | OpenReason | Promise<Buffer | OpenReason> {
    return continueWith(decodeInSlices(data), (ciphertext): Buffer | OpenReason | Promise<Buffer | OpenReason> => {
      if (ciphertext === undefined) return 'encoding';
      if (!isWholeBlocks(ciphertext)) return 'length';
      return continueWith(this.#aes.decryptInSlices(ciphertext), jsonWithoutPadding);
    });
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

  /** The ciphers are created on first use, because most accounts in a long list are inactive. */
  get #aes(): AesCbc {
    return (this.#lazyAes ??= new AesCbc(this.#credentials));
  }
}

/**
 * Finds the JSON document in decrypted blocks. Every block is read, whatever the padding says and wherever the first fault is. Otherwise, a
 * response would take longer if the padding were good or the fault came later.
 */
function jsonWithoutPadding(padded: Buffer): Buffer | OpenReason | Promise<Buffer | OpenReason> {
  const reader = new JsonReader();
  const lastBlock = padded.length - blockLength;
  const work = inSlices(lastBlock, (from, to) => reader.read(padded, from, to));
  return continueWith(work, () => {
    const padding = paddingLength(padded);
    let isJson = 0;
    for (let length = blockLength; length > 0; length -= 1) {
      isJson |= reader.accepts & isEqual(length, padding);
      reader.read(padded, padded.length - length, padded.length - length + 1);
    }
    if (padding === 0) return 'padding';
    return isJson === 1 ? padded.subarray(0, padded.length - padding) : 'not_json';
  });
}

/** Returns 1 if the numbers are equal, otherwise 0. The result is computed without a branch. */
function isEqual(a: number, b: number): number {
  return ((a ^ b) - 1) >>> 31;
}

class AesCbcSealStream implements SealStream {
  readonly #encryptor: Cipheriv;
  readonly #encoding: Encoding;
  #head = envelopeHead;
  /** Up to two bytes of ciphertext that do not yet fill a base64 group. */
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

  /** Encodes the next piece of the envelope. The first piece begins with the envelope's head. */
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
