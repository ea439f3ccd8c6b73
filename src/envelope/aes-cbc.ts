import { createCipheriv, createDecipheriv, type Cipheriv, type Decipheriv, type KeyObject } from 'node:crypto';

import { continueWith } from '../promises.ts';
import { inSlices, sliceLength } from '../slices.ts';
import { cryptography } from '../cryptography.ts';

const { algorithm } = cryptography.envelope;

/** The length of an AES block in bytes. */
export const blockLength = 16;

/** Whether `ciphertext` has a valid length for AES-CBC: one or more whole blocks. */
export function isWholeBlocks(ciphertext: Buffer): boolean {
  return ciphertext.length > 0 && ciphertext.length % blockLength === 0;
}

/** The length of the ciphertext for a plaintext of this length, in bytes. There is always at least one byte of padding. */
export function encryptedLength(plaintextLength: number): number {
  return plaintextLength - (plaintextLength % blockLength) + blockLength;
}

/** The result of decryption. If `paddingOk` is false, the plaintext is meaningless and includes the padding. */
interface DecryptionResult {
  readonly plaintext: Buffer;
  readonly paddingOk: boolean;
}

/**
 * AES-256-CBC with PKCS#7 padding (RFC 5652 §6.3) under one key and one IV.
 *
 * Setting up an OpenSSL cipher costs more than encrypting a short message, so one cipher per direction is used for all messages. Such a
 * cipher chains: it uses the last block of the previous ciphertext as the IV of the next message (NIST SP 800-38A §6.2). Therefore, the
 * real IV is inserted as such a block before decryption. Before encryption, the difference between the two IVs is XORed into the first
 * block of plaintext. The input always consists of whole blocks, so the cipher never holds back part of a plaintext.
 */
export class AesCbc {
  readonly #key: KeyObject;
  readonly #iv: Buffer;
  #encrypting: Cipheriv | undefined;
  #decrypting: Decipheriv | undefined;
  /** The block that the cipher uses as the IV of the next encryption. */
  readonly #lastBlock: Buffer;

  /** @param credentials a key of 32 bytes and an IV of 16 bytes */
  constructor({ key, iv }: { readonly key: KeyObject; readonly iv: Buffer }) {
    this.#key = key;
    // `Buffer.alloc` does not use Node's pool, where a few bytes would keep 64 KiB alive.
    this.#iv = Buffer.alloc(iv.length, iv);
    this.#lastBlock = Buffer.alloc(iv.length, iv);
  }

  encrypt(plaintext: Buffer): Buffer {
    const length = encryptedLength(plaintext.length);
    const padded = Buffer.allocUnsafe(length);
    plaintext.copy(padded);
    padded.fill(length - plaintext.length, plaintext.length);
    const cipher = this.#encrypting ?? this.#startEncrypting();
    // If encryption fails, the cipher is not used again.
    this.#encrypting = undefined;
    const [iv, last] = [this.#iv, this.#lastBlock];
    for (let i = 0; i < blockLength; i += 1) {
      padded[i] = (padded[i] as number) ^ (iv[i] as number) ^ (last[i] as number);
    }
    const ciphertext = cipher.update(padded);
    ciphertext.copy(last, 0, length - blockLength);
    this.#encrypting = cipher;
    return ciphertext;
  }

  /**
   * Never throws. The result is `'length'` for a ciphertext that does not consist of whole blocks. Bad padding is not a separate outcome,
   * so that a caller can check the plaintext in either case and does not become a padding oracle.
   */
  decrypt(ciphertext: Buffer): DecryptionResult | 'length' {
    if (!isWholeBlocks(ciphertext)) return 'length';
    const padded = this.#decryptAtOnce(ciphertext);
    const padding = paddingLength(padded);
    return { plaintext: padded.subarray(0, padded.length - padding), paddingOk: padding !== 0 };
  }

  /** Decrypts in slices. The result is the plaintext with its padding. @param ciphertext whole blocks */
  decryptInSlices(ciphertext: Buffer): Buffer | Promise<Buffer> {
    if (ciphertext.length <= sliceLength) return this.#decryptAtOnce(ciphertext);
    const decipher = createDecipheriv(algorithm, this.#key, this.#iv).setAutoPadding(false);
    const padded = Buffer.allocUnsafe(ciphertext.length);
    const work = inSlices(ciphertext.length, (from, to) => {
      decipher.update(ciphertext.subarray(from, to)).copy(padded, from);
    });
    return continueWith(work, () => padded);
  }

  /** The result is the plaintext with its padding. */
  #decryptAtOnce(ciphertext: Buffer): Buffer {
    const decipher = this.#decrypting ?? createDecipheriv(algorithm, this.#key, this.#iv).setAutoPadding(false);
    this.#decrypting = undefined;
    const padded = decipher.update(Buffer.concat([this.#iv, ciphertext])).subarray(blockLength);
    this.#decrypting = decipher;
    return padded;
  }

  /** Encrypts piece by piece. The joined pieces equal the result of `encrypt` for the whole plaintext. */
  encryptor(): Cipheriv {
    return createCipheriv(algorithm, this.#key, this.#iv);
  }

  #startEncrypting(): Cipheriv {
    this.#iv.copy(this.#lastBlock);
    return createCipheriv(algorithm, this.#key, this.#iv).setAutoPadding(false);
  }
}

/**
 * The length of the PKCS#7 padding, 1–16, or 0 if it is bad. Does not branch on the bytes that it reads. @param padded must not be empty
 */
export function paddingLength(padded: Buffer): number {
  const length = padded[padded.length - 1] as number;
  // Shifting right by 31 bits turns a negative difference into -1 and any other into 0, so these are comparisons without a branch.
  let bad = (blockLength - length) >> 31;
  for (let fromEnd = 1; fromEnd <= blockLength; fromEnd += 1) {
    const isPadding = (fromEnd - 1 - length) >> 31;
    bad |= isPadding & ((padded[padded.length - fromEnd] as number) ^ length);
  }
  return length & ~((bad | -bad) >> 31);
}
