import type { KeyObject } from 'node:crypto';
import type { EpochMs } from '../times.ts';
import type { AlgorithmName } from './credentials.ts';
import type { Encoding } from './encoding.ts';

/**
 * The interface for envelope formats. A format's codec is a class in this folder, such as `aes-cbc-codec.ts`, that implements
 * `EnvelopeCodec`. Code above this folder holds codecs and needs neither keys nor encodings.
 */

/**
 * Why a string could not be opened, in the order of the checks. The reasons may appear only in the access log, because anyone who can tell
 * `padding` from `not_json` has a CBC padding oracle.
 */
export const openReasons = ['encoding', 'length', 'padding', 'not_json'] as const;
export type OpenReason = (typeof openReasons)[number];

/** Seals plaintext for one account in one environment. */
export interface EnvelopeSealer {
  /** The whole envelope, `{"data":"…"}`, in ASCII. */
  seal(plaintext: Buffer): string;
  /** The exact length of the envelope for a plaintext of this length, in bytes. */
  sealedLength(plaintextLength: number): number;
  /** Seals piece by piece in constant memory. The joined pieces equal the result of `seal` for the whole plaintext. */
  stream(): SealStream;
}

/** One envelope that is being sealed. `end` must be the last call. */
export interface SealStream {
  update(chunk: Buffer): string;
  end(): string;
}

/** What a format may need to open a string, in addition to the credentials. */
export interface OpenContext {
  readonly clock: () => EpochMs;
  /**
   * The data that formats remember about the account in the environment, such as nonces against replays, keyed by the format's name. The
   * data outlives a reload, which creates new codecs. Each format limits how much it keeps.
   */
  readonly memory: () => Map<string, unknown>;
}

/** Opens strings that one account seals in one environment. */
export interface EnvelopeOpener {
  /**
   * Whether `open` waits for something even if the body is short. If `open` does not wait, a short body may be passed as a view of the
   * bytes that were read, which are soon overwritten.
   */
  readonly waits: boolean;
  /**
   * @param data the string of an envelope, as bytes
   * @returns the plaintext byte for byte, which is valid JSON in UTF-8; or why the string could not be opened. A promise if `open` waits or
   *   works in slices. Never throws, and takes the same time for every fault in the plaintext, wherever the fault is.
   */
  open(data: Buffer, context: OpenContext): Buffer | OpenReason | Promise<Buffer | OpenReason>;
  /**
   * The likely mistake in a string that could not be opened, for merchants in the test environment. The hint depends only on the string,
   * because it must not reveal the plaintext.
   */
  hint(data: string): string;
}

/** Seals and opens with the same credentials. */
export interface EnvelopeCodec extends EnvelopeSealer, EnvelopeOpener {
  /** The first 16 hex digits of SHA-256 over the bytes of the key and the IV. It reveals neither the key nor the IV. */
  readonly fingerprint: string;
  /** A plain form for sending a codec to another thread and for comparing codecs. */
  pack(): PackedCodec;
}

/** A codec in plain form (see `unpackCodec`). Sending it to another thread does not copy the key object. */
export interface PackedCodec {
  readonly algorithm: AlgorithmName;
  readonly key: KeyObject;
  readonly iv: Uint8Array;
  readonly encoding: Encoding;
}

/** The text before and after the string of a sealed envelope. */
export const envelopeHead = '{"data":"';
export const envelopeTail = '"}';
