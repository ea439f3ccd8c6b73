import type { KeyObject } from 'node:crypto';
import type { EpochMs } from '../times.ts';
import type { AlgorithmName } from './credentials.ts';
import type { Encoding } from './encoding.ts';

/**
 * The interface for envelope formats. A format's codec is a class in this folder, such as `aes-cbc-codec.ts`, that
 * implements `EnvelopeCodec`. Code above this folder holds codecs and needs neither key nor encoding.
 */

/**
 * Why a string did not open, in the order of the checks. Only for the access log: whoever can tell `padding` from `not_json` has a CBC
 * padding oracle.
 */
export const openReasons = ['encoding', 'length', 'padding', 'not_json'] as const;
export type OpenReason = (typeof openReasons)[number];

/** Seals for one account in one environment. */
export interface EnvelopeSealer {
  /** The whole envelope, `{"data":"…"}`, ASCII. */
  seal(plaintext: Buffer): string;
  /** The exact length of the envelope for a plaintext of this length, in bytes. */
  sealedLength(plaintextLength: number): number;
  /** Seals piece by piece in constant memory. The joined pieces equal the result of `seal` for the whole. */
  stream(): SealStream;
}

/** One envelope in progress. `end` is the last call. */
export interface SealStream {
  update(chunk: Buffer): string;
  end(): string;
}

/** What a format may need to open a string, besides the credentials. */
export interface OpenContext {
  readonly clock: () => EpochMs;
  /**
   * What formats remember about the account in the environment, such as nonces against replays, by the format's name. The memory outlives a
   * reload, which makes new codecs. Each format bounds what it keeps.
   */
  readonly memory: () => Map<string, unknown>;
}

/** Opens what one account seals in one environment. */
export interface EnvelopeOpener {
  /**
   * Whether `open` waits for something even if the body is short. If it does not, a short body may be passed as a view of what was read,
   * which is soon overwritten.
   */
  readonly waits: boolean;
  /**
   * @param data the string of an envelope, as bytes
   * @returns the plaintext, valid JSON in UTF-8, byte for byte; or why it did not open. A promise if `open` waits or works in slices. Never
   *   throws, and takes the same time for every fault in the plaintext, wherever the fault is.
   */
  open(data: Buffer, context: OpenContext): Buffer | OpenReason | Promise<Buffer | OpenReason>;
  /**
   * The likely mistake in a string that did not open, for merchants in test. Depends only on the string, never on its
   * plaintext.
   */
  hint(data: string): string;
}

/** Both directions under the same credentials. */
export interface EnvelopeCodec extends EnvelopeSealer, EnvelopeOpener {
  /** The first 16 hex digits of SHA-256 over the bytes of the key and the IV. It reveals neither. */
  readonly fingerprint: string;
  /** A plain form for sending a codec to another thread and for comparing codecs. */
  pack(): PackedCodec;
}

/** See `unpackCodec`. Sending it does not copy the key object. */
export interface PackedCodec {
  readonly algorithm: AlgorithmName;
  readonly key: KeyObject;
  readonly iv: Uint8Array;
  readonly encoding: Encoding;
}

/** The text around the string of a sealed envelope. */
export const envelopeHead = '{"data":"';
export const envelopeTail = '"}';
