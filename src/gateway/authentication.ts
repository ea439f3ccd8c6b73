import {
  environmentOf,
  hashOf,
  isWellFormed,
  prefixOf,
  type ApiKey,
  type EnvironmentName,
} from '../accounts/api-key.ts';
import type { Found, KeyHolder } from '../accounts/directory.ts';
import { Refusal } from './refusal.ts';

/** RFC 6750 §2.1 with the scheme in any case (RFC 9110 §11.1) and one or more spaces. */
const bearer = /^bearer +(\S+)$/i;

/**
 * Finds whose request this is. The environment is checked on the key's prefix, before any look-up: a live key sent to
 * the test endpoint is refused for what it is, whether or not anybody knows it.
 *
 * @param find looks a key up by its hash
 * @param now  epoch milliseconds
 */
export async function authenticate(
  authorization: string | undefined,
  environment: EnvironmentName,
  find: (hash: string) => Found | Promise<Found>,
  now: number,
): Promise<KeyHolder | Refusal> {
  if (authorization === undefined) return new Refusal('missing_api_key');
  const key = bearer.exec(authorization)?.[1];
  if (key === undefined || !isWellFormed(key)) return new Refusal('malformed_api_key');
  if (environmentOf(prefixOf(key)) !== environment) return new Refusal('environment_mismatch');
  const holder = await find(hashOf(key));
  if (holder === 'unavailable') return new Refusal('accounts_unavailable');
  if (holder === undefined) return new Refusal('invalid_api_key');
  // A stored hash says of its kind and environment what its file says; only if the key agrees is either to be believed.
  const isGood = holder.key.prefix === prefixOf(key) && isInForce(holder.key, now);
  return isGood ? holder : new Refusal('invalid_api_key');
}

/** Whether a key has neither expired nor been revoked. @param now epoch milliseconds */
export function isInForce({ expiresAt = Infinity, revokedAt }: ApiKey, now: number): boolean {
  return now < expiresAt && revokedAt === undefined;
}
