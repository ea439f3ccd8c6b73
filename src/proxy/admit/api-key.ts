import { isWellFormed, prefixOf, sha256Hex, stateOf, type PresentedKey } from '../../accounts/api-key.ts';
import type { LookupResult, Principal } from '../../accounts/key-directory.ts';
import { Refusal } from '../../errors.ts';
import { bearerToken } from '../../http.ts';
import { ownText } from '../../own-text.ts';
import type { ClientConnection } from '../capacity/connections.ts';

/**
 * The API key of `Authorization`, or why there is none.
 *
 * @param client keeps the key: on a connection it is read and hashed again only if the text has changed
 */
export function readApiKey(
  authorization: string | undefined,
  client: Pick<ClientConnection, 'lastKey'>,
): PresentedKey | Refusal {
  if (authorization === undefined) return new Refusal('missing_api_key');
  if (client.lastKey?.authorization !== authorization) {
    const token = bearerToken(authorization);
    const key =
      token !== undefined && isWellFormed(token) ? { prefix: prefixOf(token), hash: sha256Hex(token) } : undefined;
    client.lastKey = { authorization: ownText(authorization), key };
  }
  return client.lastKey.key ?? new Refusal('malformed_api_key');
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
