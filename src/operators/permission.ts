import { operatorRoles } from '../config/choices.ts';
import type { OperatorsToken } from '../config/config.ts';
import type { Endpoint } from './endpoint.ts';
import { ApiProblem } from './problems.ts';

/**
 * Refuses what a token may not do. A token of one account gets the same response for every other id, so that it does not learn
 * which accounts exist.
 *
 * @param account as in the request's path or query; undefined: they have none
 * @throws ApiProblem `forbidden`
 */
export function checkPermission(
  { role, accountToken }: Pick<Endpoint, 'role' | 'accountToken'>,
  token: OperatorsToken,
  account: string | undefined,
): void {
  // Roles stand in the order of what they may do.
  if (operatorRoles.indexOf(token.role) < operatorRoles.indexOf(role)) {
    throw new ApiProblem('forbidden', `The role of this token is ${token.role}; this needs the role ${role}.`);
  }
  if (token.account === undefined || account === token.account) return;
  if (account === undefined && accountToken === 'own') return;
  throw new ApiProblem('forbidden', `This token is for account ${token.account} alone.`);
}
