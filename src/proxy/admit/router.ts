import type { Route } from '../../config/config.ts';

/** The routes that apply to a request: a single route, or all routes of the request's path if none of them has the request's method. */
export type RouteMatch =
  | { readonly outcome: 'matched'; readonly route: Route; readonly routes: readonly [Route] }
  | { readonly outcome: 'method_not_allowed' | 'unlisted'; readonly routes: readonly Route[] };

/** The routes of one path. The path is chosen before the method. */
interface PathRoutes {
  readonly routes: readonly Route[];
  readonly match: ReadonlyMap<string, RouteMatch>;
  readonly otherwise: RouteMatch;
}

const unlisted: RouteMatch = { outcome: 'unlisted', routes: [] };

/** A node in the tree of configured paths. */
class PathNode {
  readonly literals = new Map<string, PathNode>();
  parameter: PathNode | undefined;
  /** Routes of the path that ends here. */
  exact: PathRoutes | undefined;
  /** Routes of the path that ends here with `/*`. */
  below: PathRoutes | undefined;

  /** The node of a configured segment, created if it is missing. */
  child(segment: string): PathNode {
    if (segment.startsWith(':')) return (this.parameter ??= new PathNode());
    const node = this.literals.get(segment) ?? new PathNode();
    this.literals.set(segment, node);
    return node;
  }

  /** The routes of the most specific path: at each segment, a literal precedes a parameter, and a parameter precedes `*`. */
  find(path: string, at: number): PathRoutes | undefined {
    // `/x/*` covers `/x` too, unless `/x` has its own route.
    if (at >= path.length) return this.exact ?? this.below;
    const slash = path.indexOf('/', at);
    const end = slash === -1 ? path.length : slash;
    return (
      this.literals.get(path.slice(at, end))?.find(path, end + 1) ??
      (end > at ? this.parameter?.find(path, end + 1) : undefined) ??
      this.below
    );
  }
}

/**
 * Finds the route of a request by its path, most specific first, then by its method. The path is matched as received, except that ASCII
 * letter case and a trailing slash are ignored, as upstream frameworks do (Express by default). Otherwise, another spelling of a path could
 * bypass the envelope that the path requires. Nothing is decoded, because lower-casing would turn a decoded `%E2%84%AA` (the Kelvin sign)
 * into `k`.
 */
export class Router {
  readonly #root = new PathNode();

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      let node = this.#root;
      for (const segment of route.path.toLowerCase().split('/')) {
        if (segment !== '' && segment !== '*') node = node.child(segment);
      }
      const end = route.path.endsWith('/*') ? 'below' : 'exact';
      node[end] = pathRoutes([...(node[end]?.routes ?? []), route]);
    }
  }

  /** @param path a path that `readPath` has accepted: ASCII, without empty segments */
  match(path: string, method: string): RouteMatch {
    const found = this.#root.find(path.toLowerCase(), 1);
    return found === undefined ? unlisted : (found.match.get(method) ?? found.otherwise);
  }
}

function pathRoutes(routes: readonly Route[]): PathRoutes {
  const match = new Map<string, RouteMatch>();
  let otherwise: RouteMatch | undefined;
  for (const route of routes) {
    const matched: RouteMatch = { outcome: 'matched', route, routes: [route] };
    if (route.methods.length === 0) otherwise = matched;
    for (const method of route.methods) match.set(method, matched);
  }
  const get = match.get('GET');
  if (get !== undefined && !match.has('HEAD')) match.set('HEAD', get);
  return { routes, match, otherwise: otherwise ?? { outcome: 'method_not_allowed', routes } };
}
