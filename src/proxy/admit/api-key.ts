import {
  environmentOf,
  isWellFormed,
  prefixOf,
  sha256Hex,
  stateOf,
  type EnvironmentName,
  type KeyPrefix,
} from '../../accounts/api-key.ts';
import type { Principal, LookupResult } from '../../accounts/key-directory.ts';
import { Refusal } from '../../errors.ts';
import { bearerToken } from '../../http.ts';

/** What remains of an API key after it was read: the key itself is not kept. */
export interface PresentedKey {
  readonly prefix: KeyPrefix;
  /** Lower-case hex SHA-256 of the whole key. */
  readonly hash: string;
}

/** Reads the API key of `Authorization`; undefined if there is no well-formed one. */
export function readApiKey(authorization: string): PresentedKey | undefined {
  const key = bearerToken(authorization);
  return key !== undefined && isWellFormed(key) ? { prefix: prefixOf(key), hash: sha256Hex(key) } : undefined;
}

/**
 * Whether a key may be looked up in an environment. It is checked on the key's prefix, before any look-up: a live key sent to
 * the test endpoint is refused as such, whether or not it exists.
 */
export function keyFault(
  authorization: string | undefined,
  key: PresentedKey | undefined,
  environment: EnvironmentName,
): Refusal | undefined {
  if (authorization === undefined) return new Refusal('missing_api_key');
  if (key === undefined) return new Refusal('malformed_api_key');
  return environmentOf(key.prefix) === environment ? undefined : new Refusal('environment_mismatch');
}

/**
 * Checks the result of a look-up.
 *
 * @param now epoch milliseconds
 * @returns the principal, or why the key is refused: then `found` may still be named in the log
 */
export function authenticate(key: PresentedKey, found: LookupResult, now: number): Principal | Refusal {
  if (found === 'unavailable') return new Refusal('accounts_unavailable');
  // The stored kind and environment come from the accounts' file; they count only if the key agrees with them.
  if (found === undefined || found.key.prefix !== key.prefix)
    return new Refusal('invalid_api_key', { reason: 'unknown' });
  const state = stateOf(found.key, now);
  return state === 'valid' ? found : new Refusal('invalid_api_key', { reason: state });
}
