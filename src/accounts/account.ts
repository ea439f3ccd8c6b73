import type { EnvelopeCodec } from '../envelope/codec.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs } from '../times.ts';

/**
 * How one account encrypts in one environment or, during a grace period after encryption was disabled, which envelopes the account may
 * still send.
 */
export type Encryption<Codec = EnvelopeCodec> = EncryptionOn<Codec> | EncryptionEnding<Codec>;

/** Encryption is enabled. */
export interface EncryptionOn<Codec = EnvelopeCodec> {
  readonly type: 'on';
  /** Seals and opens with the current credentials. */
  readonly current: Codec;
  /** When the credentials were made; undefined if the accounts file does not say. */
  readonly createdAt: EpochMs | undefined;
  /** The grace period after a change; undefined if there is none. */
  readonly grace: Grace<Codec> | undefined;
}

/** Encryption was disabled with a grace period, during which plaintext and envelopes sealed with the previous credentials are accepted. */
interface EncryptionEnding<Codec> {
  readonly type: 'ending';
  readonly previous: Codec;
  /** End of the grace period. From then on, the account is treated as one without encryption. */
  readonly until: EpochMs;
}

/** A grace period, in which the previous credentials or plaintext are also accepted. */
export interface Grace<Codec = EnvelopeCodec> {
  /** Undefined if plaintext is accepted, because the account did not encrypt before the change. */
  readonly previous: Codec | undefined;
  /** End of the grace period. From then on, only the current credentials are accepted. */
  readonly until: EpochMs;
}

/** A merchant. @typeParam Codec `PackedCodec` if the account can be sent to another thread */
export interface Account<Codec = EnvelopeCodec> {
  readonly id: string;
  readonly name: string;
  readonly active: boolean;
  readonly keys: readonly ApiKey[];
  readonly encryption: Readonly<Partial<Record<EnvironmentName, Encryption<Codec>>>>;
  /** Why the credentials cannot be unwrapped. Requests are then refused, because the account must not be treated as unencrypted. */
  readonly unwrapError?: string;
}
