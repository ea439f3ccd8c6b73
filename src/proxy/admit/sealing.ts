import type { Encryption, Grace } from '../../accounts/account.ts';
import type { EnvelopeCodec, EnvelopeSealer } from '../../envelope/codec.ts';
import type { RequestHead } from './head.ts';
import type { EpochMs } from '../../times.ts';

/**
 * How an account encrypts at one point in time. An undefined codec means plaintext. During a grace period, which ends at `grace.until`, the
 * previous codec is accepted too.
 */
export type ActiveEncryption =
  | {
      readonly current: EnvelopeCodec;
      readonly grace: Grace | undefined;
      /** When the current credentials were created; undefined if that is not known. */
      readonly createdAt: EpochMs | undefined;
    }
  | {
      readonly current: undefined;
      readonly grace: Grace & { readonly previous: EnvelopeCodec };
      readonly createdAt?: undefined;
    };

/** How a response is sealed. During a grace period, the response names the credentials in `Envelope-Credentials`. */
export interface Sealing {
  /** Undefined for a plain response. */
  readonly sealer: EnvelopeSealer | undefined;
  /** Whether the request was admitted during a grace period of its account. */
  readonly inGrace: boolean;
  /** Which credentials `sealer` uses. */
  readonly credentials: 'current' | 'previous' | 'none';
}

/** How an account encrypts now; undefined if it does not, or no longer does. */
export function encryptionAt(encryption: Encryption | undefined, now: EpochMs): ActiveEncryption | undefined {
  if (encryption === undefined) return undefined;
  if (encryption.type === 'ending') {
    // Encryption is being disabled, so the current setting is plaintext.
    return now < encryption.until ? { current: undefined, grace: encryption } : undefined;
  }
  const { current, createdAt, grace } = encryption;
  return { current, createdAt, grace: grace !== undefined && now < grace.until ? grace : undefined };
}

/** The codecs that may open an envelope, the current one first. */
export function listOpeners({ current, grace }: ActiveEncryption): readonly [EnvelopeCodec, ...EnvelopeCodec[]] {
  if (current === undefined) return [grace.previous];
  return grace?.previous === undefined ? [current] : [current, grace.previous];
}

/** Whether a codec may have to wait to open an envelope, so that the body is still needed in a later turn. */
export function waitsToOpen({ current, grace }: ActiveEncryption): boolean {
  return current?.waits === true || grace?.previous?.waits === true;
}

/** Whether plaintext is accepted as well as envelopes. */
export function takesPlaintext({ current, grace }: ActiveEncryption): boolean {
  return grace !== undefined && (current === undefined || grace.previous === undefined);
}

/**
 * The codec that seals a response if the request does not name one: the current codec or, during a grace period, the previous one.
 * Undefined for plaintext.
 */
export function usualSealer({ current, grace }: ActiveEncryption): EnvelopeCodec | undefined {
  return grace === undefined ? current : grace.previous;
}

/** The form of a fingerprint in `Envelope-Credentials`, in lower case. */
export const fingerprintForm = /^[0-9a-f]{16}$/;

/**
 * How a response is sealed unless the request's body decides. `Envelope-Credentials` can name the credentials by their fingerprint or as
 * `current`. If it does not, `usualSealer` decides.
 *
 * @returns undefined if neither pair of credentials has the named fingerprint, because a client with other credentials could not read any
 *   response
 */
export function sealingByHead(
  { requestedCredentials = '' }: RequestHead,
  encryption: ActiveEncryption,
): Sealing | undefined {
  const { current, grace } = encryption;
  const named = requestedCredentials.toLowerCase();
  if (fingerprintForm.test(named)) {
    // Fingerprints are not secret. They are shown wherever credentials are listed.
    const codec = [current, grace?.previous].find((each) => each?.fingerprint === named);
    return codec && sealingWith(codec, encryption);
  }
  return sealingWith(named === 'current' ? current : usualSealer(encryption), encryption);
}

/** How a response is sealed if the request's body was opened by a codec. @param codec undefined if the body was plaintext */
export function sealingWith(codec: EnvelopeCodec | undefined, { current, grace }: ActiveEncryption): Sealing {
  const credentials = codec === undefined ? 'none' : codec === current ? 'current' : 'previous';
  return { sealer: codec, inGrace: grace !== undefined, credentials };
}

/**
 * Whether the credentials that a request was opened with, or that seal its response, have been replaced or disabled since it was admitted.
 * If only a grace period has ended, its credentials are still accepted.
 *
 * @param after how the account encrypts in the environment now
 */
export function areRevoked(
  { encryption, sealing }: { readonly encryption: ActiveEncryption | undefined; readonly sealing: Sealing | undefined },
  after: Encryption | undefined,
): boolean {
  // On a route without envelopes, or with plaintext, no credentials are used.
  if (sealing === undefined || sealing.credentials === 'none') return false;
  const used = sealing.credentials === 'current' ? encryption?.current : encryption?.grace?.previous;
  const accepted = after?.type === 'on' ? [after.current, after.grace?.previous] : [after?.previous];
  return used !== undefined && !accepted.some((each) => each?.fingerprint === used.fingerprint);
}
