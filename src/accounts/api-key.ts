import type { EpochMs } from '../times.ts';

/** The environments of the payment platform, as API keys name them. */
export const environmentNames = ['test', 'live'] as const;
export type EnvironmentName = (typeof environmentNames)[number];

/** A `public` key may be used in browsers, but only on routes that allow public keys. A `secret` key stays on a server. */
export const keyKinds = ['public', 'secret'] as const;
export type KeyKind = (typeof keyKinds)[number];

/** The first eight characters of an API key: its kind and environment. */
export const keyPrefixes = ['pk_test_', 'pk_live_', 'sk_test_', 'sk_live_'] as const;
export type KeyPrefix = (typeof keyPrefixes)[number];

/** A stored API key: never the key itself, only its hash. */
export interface ApiKey {
  readonly id: string;
  readonly prefix: KeyPrefix;
  /** Lower-case hex SHA-256 of the whole key, prefix included. */
  readonly hash: string;
  readonly createdAt: EpochMs;
  /** From this time on, the key is refused. Undefined if it does not expire. */
  readonly expiresAt: EpochMs | undefined;
  /**
   * When the key was revoked. A revoked key is refused even if this time is in the future, so that a sidecar whose clock is slow also
   * refuses the key at once.
   */
  readonly revokedAt: EpochMs | undefined;
}

/** The parts of a client's API key that the sidecar keeps in memory. It does not keep the key itself. */
export interface PresentedKey {
  readonly prefix: KeyPrefix;
  /** Lower-case hex SHA-256 of the whole key. */
  readonly hash: string;
}

export const keyStates = ['valid', 'expired', 'revoked'] as const;

/** Whether a key may be used and, if not, why. */
export function getState({ expiresAt = Infinity, revokedAt }: ApiKey, now: EpochMs): (typeof keyStates)[number] {
  if (revokedAt !== undefined) return 'revoked';
  return now < expiresAt ? 'valid' : 'expired';
}

/** Whether a key has neither expired nor been revoked. */
export function isValidKey(key: ApiKey, now: EpochMs): boolean {
  return getState(key, now) === 'valid';
}

const wellFormed = /^[ps]k_(?:test|live)_[A-Za-z0-9_-]{16,200}$/;

/** Whether `token` has the form of an API key: a known prefix, then 16–200 of `[A-Za-z0-9_-]`. */
export function isWellFormed(token: string): boolean {
  return wellFormed.test(token);
}

/** The prefix of a well-formed key. */
export function readPrefix(wellFormedKey: string): KeyPrefix {
  return wellFormedKey.slice(0, 8) as KeyPrefix;
}

/** The environment a prefix names. */
export function getEnvironment(prefix: KeyPrefix): EnvironmentName {
  return prefix === 'pk_test_' || prefix === 'sk_test_' ? 'test' : 'live';
}

/** The kind a prefix names. */
export function getKind(prefix: KeyPrefix): KeyKind {
  return prefix === 'pk_test_' || prefix === 'pk_live_' ? 'public' : 'secret';
}
