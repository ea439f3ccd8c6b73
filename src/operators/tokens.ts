import { timingSafeEqual } from 'node:crypto';
import { sha256Hex } from '../accounts/api-key.ts';
import { operatorRoles } from '../config/choices.ts';
import type { OperatorsToken } from '../config/config.ts';
import { bearerToken } from '../http.ts';
import type { Endpoint } from './endpoint.ts';
import { ApiProblem } from './problems.ts';

/**
 * Finds the token that a request carries. Its hash is compared with the whole hash of every token, so that the time
 * reveals nothing about a guess.
 */
export function findToken(authorization: string, tokens: readonly OperatorsToken[]): OperatorsToken | undefined {
  const sent = bearerToken(authorization);
  if (sent === undefined) return undefined;
  const given = Buffer.from(sha256Hex(sent));
  let found: OperatorsToken | undefined;
  for (const token of tokens) if (timingSafeEqual(given, Buffer.from(token.hash))) found = token;
  return found;
}

/**
 * Refuses a request that its token does not permit. A token of one account gets the same response for every other id,
 * so that it does not learn which accounts exist.
 *
 * @param account that the request names
 * @throws ApiProblem `forbidden`
 */
export function checkPermission(
  { role, accountToken }: Pick<Endpoint, 'role' | 'accountToken'>,
  token: OperatorsToken,
  account: { readonly inPath: string | undefined; readonly inQuery: string | undefined },
): void {
  // Roles are in the order of their permissions.
  if (operatorRoles.indexOf(token.role) < operatorRoles.indexOf(role)) {
    throw new ApiProblem(
      'forbidden',
      `The role of this token is ${token.role}; this operation needs the role ${role}.`,
    );
  }
  if (token.account === undefined) return;
  // The account of the query counts only if the endpoint reads the query. Otherwise a token could name its own account
  // and reach another.
  const own = accountToken === 'own' ? (account.inQuery ?? token.account) : undefined;
  if ((account.inPath ?? own) === token.account) return;
  throw new ApiProblem('forbidden', `This token is for account ${token.account} only.`);
}
