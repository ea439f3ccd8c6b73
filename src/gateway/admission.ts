import { environmentOf, hashOf, isWellFormed, kindOf, prefixOf, type EnvironmentName } from '../accounts/api-key.ts';
import type { Directory, KeyHolder } from '../accounts/directory.ts';
import type { Route } from '../config/config.ts';
import type { RefusalCode } from '../errors.ts';
import type { RequestHead } from './request-head.ts';
import type { RouteMatch, Router } from './router.ts';

/** RFC 6750 §2.1 with the scheme in any case (RFC 9110 §11.1) and one or more spaces. */
const bearer = /^bearer +(\S+)$/i;

/**
 * Finds whose request this is. The environment is checked on the key's prefix, before any look-up: a live key sent to
 * the test endpoint is refused for what it is, whether or not anybody knows it.
 *
 * @param now epoch milliseconds
 */
export async function authenticate(
  authorization: string | undefined,
  environment: EnvironmentName,
  directory: Directory,
  now: number,
): Promise<KeyHolder | RefusalCode> {
  if (authorization === undefined) return 'missing_api_key';
  const key = bearer.exec(authorization)?.[1];
  if (key === undefined || !isWellFormed(key)) return 'malformed_api_key';
  if (environmentOf(prefixOf(key)) !== environment) return 'environment_mismatch';
  const holder = await directory.find(hashOf(key));
  if (holder === 'unavailable') return 'accounts_unavailable';
  if (holder === undefined) return 'invalid_api_key';
  const { prefix, expiresAt = Infinity, revokedAt } = holder.key;
  // A stored hash says of its kind and environment what its file says; only if the key agrees is either to be believed.
  if (prefix !== prefixOf(key) || now >= expiresAt || revokedAt !== undefined) return 'invalid_api_key';
  return holder;
}

/** Whether the holder of a key may use a route with it. */
export function permits(match: RouteMatch, holder: KeyHolder): RefusalCode | undefined {
  if (match.outcome === 'method_not_allowed') return 'method_not_allowed';
  // A secret key may use every route, a public one those that list it.
  const kind = kindOf(holder.key.prefix);
  const isListed = match.outcome === 'matched' && match.route.keys.includes(kind);
  return kind === 'secret' || isListed ? undefined : 'key_not_permitted';
}

/** The routes that decide about a request: one, or where its method fits none of them, all of its path. */
export function routesOf(match: RouteMatch): readonly Route[] {
  if (match.outcome === 'matched') return [match.route];
  return match.outcome === 'method_not_allowed' ? match.routes : [];
}

/** The value of `Allow` for a path. */
export function allowedMethods(routes: readonly Route[]): string {
  const methods = new Set(routes.flatMap((route) => route.methods));
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods].join(', ');
}

/**
 * Whether a request is a CORS preflight (Fetch §4.8) for what a public key may do. A browser cannot send a key with it.
 */
export function isOpenPreflight(head: RequestHead, router: Router): boolean {
  if (head.method !== 'OPTIONS' || head.origin === undefined || head.requestedMethod === undefined || head.hasBody)
    return false;
  const match = router.match(head.path, head.requestedMethod);
  return match.outcome === 'matched' && match.route.keys.includes('public');
}
