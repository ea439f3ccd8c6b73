import { timingSafeEqual } from 'node:crypto';
import { hashOf } from '../accounts/api-key.ts';
import type { OperatorsToken } from '../config/config.ts';

const bearer = /^bearer +(\S+)$/i;

/**
 * Finds whose token a request carries. Hashes are compared, each with every token's and in whole, so that the time it
 * takes tells neither how much of a guess was right nor whose token it resembles.
 */
export function nameOfToken(authorization: string | undefined, tokens: readonly OperatorsToken[]): string | undefined {
  const given = Buffer.from(hashOf(bearer.exec(authorization ?? '')?.[1] ?? ''));
  let name: string | undefined;
  for (const token of tokens) if (timingSafeEqual(given, Buffer.from(token.hash))) name = token.name;
  return name;
}
