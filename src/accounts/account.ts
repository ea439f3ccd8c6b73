import type { AesCbc } from '../envelope/aes-cbc.ts';
import type { ApiKey, EnvironmentName } from './api-key.ts';

/** How one account encrypts in one environment. Present only while encryption is enabled there. */
export interface Encryption {
  /** Seals and opens with the current credentials. */
  readonly current: AesCbc;
  /** When the credentials were made, epoch milliseconds; undefined where the file does not say. */
  readonly createdAt: number | undefined;
  /** What is accepted besides, for a stated time after a change. */
  readonly grace: Grace | undefined;
}

/** The previous credentials, or plaintext (`undefined`) from an account that is just moving to encryption. */
export interface Grace {
  readonly previous: AesCbc | undefined;
  /** End of the grace, epoch milliseconds; from then on only the current credentials count. */
  readonly until: number;
}

/** A merchant. */
export interface Account {
  readonly id: string;
  readonly name: string;
  readonly active: boolean;
  readonly keys: readonly ApiKey[];
  readonly encryption: Readonly<Partial<Record<EnvironmentName, Encryption>>>;
}
