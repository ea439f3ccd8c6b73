import { rankedRoles } from '../config/choices.ts';
import type { OperatorRole, OperatorsToken } from '../config/config.ts';
import { bearerToken } from '../http.ts';
import type { Endpoint } from './endpoint.ts';
import { ApiProblem } from './problems.ts';
import { sha256Hex } from '../cryptography.ts';

/**
 * Finds the token that a request carries. Only hashes are compared, so the time taken reveals at most a part of a hash, from which nobody
 * can derive the token.
 */
export function findToken(authorization: string, tokens: readonly OperatorsToken[]): OperatorsToken | undefined {
  const sent = bearerToken(authorization);
  if (sent === undefined) return undefined;
  const given = sha256Hex(sent);
  return tokens.find(({ hash }) => hash === given);
}

/**
 * The owner of a token. For a token of one account, the owner is the account, because an account may have any number of tokens. Requests of
 * one owner wait for each other and share one part of the listener's limits.
 */
export function ownerOf({ hash, account }: OperatorsToken): string {
  return account === undefined ? hash : `account ${account}`;
}

/** Whether there may be many tokens of the same kind, as of viewers and of accounts. */
export function isOneOfMany({ account, role }: OperatorsToken): boolean {
  return account !== undefined || role === 'viewer';
}

/**
 * Whose requests begin in turns, one in each turn of the event loop, so that operators' requests are served in between. Undefined if the
 * requests begin at once.
 *
 * @param token undefined if the request has no valid token. All such requests have one owner
 */
export function ownerInTurns(token: OperatorsToken | undefined): string | undefined {
  if (token === undefined) return 'none';
  return isOneOfMany(token) ? ownerOf(token) : undefined;
}

/**
 * Refuses a request that its token does not permit. A token of one account gets the same response for every other account id, so that it
 * does not learn which accounts exist.
 *
 * @param request the account and the environment that the request names
 * @throws ApiProblem `forbidden`
 */
export function checkPermission(
  { role, roleInLive = role, accountToken }: Pick<Endpoint, 'role' | 'roleInLive' | 'accountToken'>,
  token: OperatorsToken,
  request: {
    readonly accountInPath: string | undefined;
    readonly accountInQuery: string | undefined;
    readonly environment: string | undefined;
  },
): void {
  const needed = request.environment === 'live' ? roleInLive : role;
  if (!includes(token.role, needed)) {
    const where = needed === role ? '' : ' in live';
    throw new ApiProblem(
      'forbidden',
      `The role of this token is ${token.role}; this operation requires the role ${needed}${where}.`,
    );
  }
  if (token.environment !== undefined && request.environment !== token.environment) {
    throw new ApiProblem('forbidden', `This token is for ${token.environment} only.`);
  }
  if (token.account === undefined) return;
  // The account in the query counts only if the endpoint reads the query. If it always counted, a token could name its own account in the
  // query and reach another account.
  const own = accountToken === 'own' ? (request.accountInQuery ?? token.account) : undefined;
  if (accountToken === 'none') throw new ApiProblem('forbidden', 'A token of one account may not use this operation.');
  if ((request.accountInPath ?? own) === token.account) return;
  throw new ApiProblem('forbidden', `This token is for account ${token.account} only.`);
}

/** Whether a token may begin and keep a session. Tokens with the role `core` may not, because they belong to a program. */
export const maySignIn = ({ role }: OperatorsToken): boolean => role !== 'core';

/** Whether `role` includes the permissions of the role `needed`. */
function includes(role: OperatorRole, needed: OperatorRole): boolean {
  if (role === 'core' || needed === 'core') return role === needed || role === 'admin';
  return rankedRoles.indexOf(role) >= rankedRoles.indexOf(needed);
}
