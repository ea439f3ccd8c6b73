import { timingSafeEqual } from 'node:crypto';
import { hashOf } from '../accounts/api-key.ts';
import type { OperatorsToken } from '../config/config.ts';
import { bearerToken } from '../http.ts';

/**
 * Finds the token that a request carries. Its hash is compared with the whole hash of every token, so that the time
 * reveals nothing about a guess.
 */
export function findToken(
  authorization: string | undefined,
  tokens: readonly OperatorsToken[],
): OperatorsToken | undefined {
  const sent = bearerToken(authorization ?? '');
  if (sent === undefined) return undefined;
  const given = Buffer.from(hashOf(sent));
  let found: OperatorsToken | undefined;
  for (const token of tokens) if (timingSafeEqual(given, Buffer.from(token.hash))) found = token;
  return found;
}
