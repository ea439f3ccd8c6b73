import type { EnvelopeCodec } from '../envelope/codec.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';
import type { EpochMs } from '../times.ts';

/** How one account encrypts in one environment. Undefined if it does not encrypt and no grace is running. */
export type Encryption<Codec = EnvelopeCodec> = EncryptionOn<Codec> | EncryptionEnding<Codec>;

/** Encryption is enabled. */
export interface EncryptionOn<Codec = EnvelopeCodec> {
  readonly type: 'on';
  /** Seals and opens with the current credentials. */
  readonly current: Codec;
  /** When the credentials were made; undefined if the file does not say. */
  readonly createdAt: EpochMs | undefined;
  /** The grace: what is also accepted, for a limited time after a change. */
  readonly grace: Grace<Codec> | undefined;
}

/** Encryption was disabled with a grace: plaintext is accepted, and so are envelopes sealed with the previous credentials. */
interface EncryptionEnding<Codec> {
  readonly type: 'ending';
  readonly previous: Codec;
  /** From then on the account is like one without encryption. */
  readonly until: EpochMs;
}

/** The previous credentials, or plaintext (`undefined`) from an account that is just moving to encryption. */
export interface Grace<Codec = EnvelopeCodec> {
  readonly previous: Codec | undefined;
  /** End of the grace; from then on only the current credentials count. */
  readonly until: EpochMs;
}

/** A merchant. @typeParam Codec `PackedCodec` if the account can be sent to another thread */
export interface Account<Codec = EnvelopeCodec> {
  readonly id: string;
  readonly name: string;
  readonly active: boolean;
  readonly keys: readonly ApiKey[];
  readonly encryption: Readonly<Partial<Record<EnvironmentName, Encryption<Codec>>>>;
  /** Why the credentials cannot be unwrapped. Requests are then refused: the account must not be treated as one that does not encrypt. */
  readonly unwrapError?: string;
}
