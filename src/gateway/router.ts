import type { Route } from '../config/config.ts';

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

/** One place in the tree of configured paths, reached by the segments before it. */
class Place {
  readonly literals = new Map<string, Place>();
  parameter: Place | undefined;
  /** Of the path that ends here. */
  readonly exact: Route[] = [];
  /** Of the path that ends here with `/*`. */
  readonly below: Route[] = [];
  #exact: PathRoutes | undefined;
  #below: PathRoutes | undefined;

  /** The place behind a configured segment, made if there is none. */
  behind(segment: string): Place {
    if (segment.startsWith(':')) return (this.parameter ??= new Place());
    const place = this.literals.get(segment) ?? new Place();
    this.literals.set(segment, place);
    return place;
  }

  /** Settles the tree from here on, once all routes are in it. */
  settle(): void {
    this.#below = this.below.length === 0 ? undefined : pathRoutes(this.below);
    // `/x/*` covers `/x` too, unless `/x` stands for itself.
    this.#exact = this.exact.length === 0 ? this.#below : pathRoutes(this.exact);
    this.parameter?.settle();
    for (const place of this.literals.values()) place.settle();
  }

  /** The routes of the most specific path: at each segment a literal before a parameter before `*`. */
  find(path: string, at: number): PathRoutes | undefined {
    if (at >= path.length) return this.#exact;
    const slash = path.indexOf('/', at);
    const end = slash === -1 ? path.length : slash;
    return (
      this.literals.get(path.slice(at, end))?.find(path, end + 1) ??
      (end > at ? this.parameter?.find(path, end + 1) : undefined) ??
      this.#below
    );
  }
}

/**
 * Finds the route of a request by its path, most specific first, then by its method. What was received is matched, with
 * the letter case of ASCII and a trailing slash ignored as upstream frameworks do (Express by default): a path spelt
 * otherwise must not slip past its envelope. Nothing is decoded, because the letter case beyond ASCII turns `%E2%84%AA`
 * (the Kelvin sign) into `k`.
 */
export class Router {
  readonly #root = new Place();

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      let place = this.#root;
      for (const segment of route.path.toLowerCase().split('/')) {
        if (segment !== '' && segment !== '*') place = place.behind(segment);
      }
      (route.path.endsWith('/*') ? place.below : place.exact).push(route);
    }
    this.#root.settle();
  }

  /** @param path a path that the target guard let pass: ASCII, without empty segments */
  match(path: string, method: string): RouteMatch {
    const found = this.#root.find(path.toLowerCase(), 1);
    return found === undefined ? unlisted : (found.match.get(method) ?? found.otherwise);
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
