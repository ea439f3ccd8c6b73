import { operatorRoles } from '../config/choices.ts';
import type { OperatorsToken } from '../config/config.ts';
import type { Endpoint } from './endpoint.ts';
import { ApiProblem } from './problems.ts';

/** The account that a request names. */
export interface NamedAccount {
  readonly inPath: string | undefined;
  readonly inQuery: string | undefined;
}

/**
 * Refuses a request that its token does not permit. A token of one account gets the same response for every other id,
 * so that it does not learn which accounts exist.
 *
 * @throws ApiProblem `forbidden`
 */
export function checkPermission(
  { role, accountToken }: Pick<Endpoint, 'role' | 'accountToken'>,
  token: OperatorsToken,
  { inPath, inQuery }: NamedAccount,
): void {
  // Roles are in the order of their permissions.
  if (operatorRoles.indexOf(token.role) < operatorRoles.indexOf(role)) {
    throw new ApiProblem('forbidden', `The role of this token is ${token.role}; this needs the role ${role}.`);
  }
  if (token.account === undefined) return;
  // The account of the query counts only if the endpoint reads the query. Otherwise a token could name its own account
  // and reach another.
  const own = accountToken === 'own' ? (inQuery ?? token.account) : undefined;
  if ((inPath ?? own) === token.account) return;
  throw new ApiProblem('forbidden', `This token is for account ${token.account} alone.`);
}
