/**
 * The seam for envelope formats. A format is a class beside `aes-cbc.ts` that implements `EnvelopeCodec`; everything above
 * this folder holds codecs and asks neither for a key nor for an encoding.
 */

/** Why a string did not open, for the access log alone: telling `padding` from `not_json` is a CBC padding oracle. */
export type OpenReason = 'encoding' | 'length' | 'padding' | 'not_json';

/** Seals for one account in one environment. */
export interface EnvelopeSealer {
  /** The whole envelope, `{"data":"…"}`, ASCII. */
  seal(plaintext: Buffer): string;
  /** The exact length in bytes of the envelope for so many bytes of plaintext. */
  sealedLength(plaintextLength: number): number;
  /** Seals piece by piece in constant memory: the pieces put together are what `seal` returns for the whole. */
  stream(): SealStream;
}

/** One envelope in progress. `end` is the last call. */
export interface SealStream {
  update(chunk: Buffer): string;
  end(): string;
}

/** Opens what one account seals in one environment. */
export interface EnvelopeOpener {
  /**
   * @param data the string of an envelope
   * @returns the plaintext, valid JSON in UTF-8, byte for byte; or why it did not open. Never throws, and takes the same
   *   time for every fault of the plaintext.
   */
  open(data: string): Buffer | OpenReason;
}

/** Both directions under the same credentials. */
export interface EnvelopeCodec extends EnvelopeSealer, EnvelopeOpener {}

/** The text around the string of a sealed envelope. */
export const envelopeHead = '{"data":"';
export const envelopeTail = '"}';
