import { environmentOf, isValidKey, isWellFormed, prefixOf, type EnvironmentName } from '../accounts/api-key.ts';
import type { LookupResult, KeyHolder } from '../accounts/key-directory.ts';
import { bearerToken } from '../http.ts';
import { Refusal } from './refusal.ts';

/**
 * Reads the API key from `Authorization`. The environment is checked on the key's prefix, before any look-up: a live key sent
 * to the test endpoint is refused as such, whether or not it exists.
 */
export function parseApiKey(authorization: string | undefined, environment: EnvironmentName): string | Refusal {
  if (authorization === undefined) return new Refusal('missing_api_key');
  const key = bearerKey(authorization);
  if (key === undefined) return new Refusal('malformed_api_key');
  return environmentOf(prefixOf(key)) === environment ? key : new Refusal('environment_mismatch');
}

/** The well-formed API key of `Authorization`, or undefined. */
export function bearerKey(authorization: string): string | undefined {
  const key = bearerToken(authorization);
  return key !== undefined && isWellFormed(key) ? key : undefined;
}

/**
 * Checks the result of a look-up.
 *
 * @param key as sent
 * @param now epoch milliseconds
 */
export function authenticate(key: string, found: LookupResult, now: number): KeyHolder | Refusal {
  if (found === 'unavailable') return new Refusal('accounts_unavailable');
  if (found === undefined) return new Refusal('invalid_api_key');
  // The stored kind and environment come from the accounts' file; they count only if the key agrees with them.
  const isGood = found.key.prefix === prefixOf(key) && isValidKey(found.key, now);
  return isGood ? found : new Refusal('invalid_api_key');
}
