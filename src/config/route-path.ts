/**
 * The key of a path. Paths that differ only in letter case, a trailing slash or the names of parameters have the same
 * key.
 */
export function routeKey(path: string): string {
  const key = path.toLowerCase().replaceAll(/:[^/]+/g, ':p');
  return key.length > 1 && key.endsWith('/') ? key.slice(0, -1) : key;
}
