import createTree from 'find-my-way';
import type { Route } from '../config/config.ts';
import { routeKey } from '../config/route-path.ts';

/** What the routes say of a request: the one that fits, or why none does. */
export type RouteMatch =
  | { readonly outcome: 'matched'; readonly route: Route }
  | { readonly outcome: 'method_not_allowed'; readonly routes: readonly Route[] }
  | { readonly outcome: 'unlisted' };

/** The routes of one path: the path decides before the method does. */
interface PathRoutes {
  readonly match: ReadonlyMap<string, RouteMatch>;
  readonly otherwise: RouteMatch;
}

const unlisted: RouteMatch = { outcome: 'unlisted' };

/** Finds the route of a request by its path, most specific first, then by its method. */
export class Router {
  // find-my-way chooses by method first; all paths stand under one method here, so that the path goes first.
  readonly #tree = createTree({
    // As upstream frameworks match (Express by default): a path spelt otherwise must not slip past its envelope.
    caseSensitive: false,
    ignoreTrailingSlash: true,
    // A parameter longer than a limit would not match, and its request would count as unlisted.
    maxParamLength: Number.MAX_SAFE_INTEGER,
  });

  constructor(routes: readonly Route[]) {
    const paths = new Map<string, Route[]>();
    for (const route of routes) {
      const same = paths.get(routeKey(route.path));
      if (same === undefined) paths.set(routeKey(route.path), [route]);
      else same.push(route);
    }
    for (const [path, group] of paths) this.#add(path, pathRoutes(group));
    for (const [path, group] of paths) {
      // `/x/*` covers `/x` too, unless `/x` stands for itself.
      const bare = path.slice(0, -2);
      if (path.endsWith('/*') && bare !== '' && !paths.has(bare)) this.#add(bare, pathRoutes(group));
    }
  }

  /** @param path a path that the target guard let pass */
  match(path: string, method: string): RouteMatch {
    const found = this.#tree.find('GET', path)?.store as PathRoutes | undefined;
    if (found === undefined) return unlisted;
    return found.match.get(method) ?? found.otherwise;
  }

  #add(path: string, routes: PathRoutes): void {
    this.#tree.on('GET', path, () => {}, routes);
  }
}

function pathRoutes(routes: readonly Route[]): PathRoutes {
  const match = new Map<string, RouteMatch>();
  let otherwise: RouteMatch | undefined;
  for (const route of routes) {
    const matched: RouteMatch = { outcome: 'matched', route };
    if (route.methods.length === 0) otherwise = matched;
    for (const method of route.methods) match.set(method, matched);
  }
  const get = match.get('GET');
  if (get !== undefined && !match.has('HEAD')) match.set('HEAD', get);
  return { match, otherwise: otherwise ?? { outcome: 'method_not_allowed', routes } };
}
