/** Paths that differ only in letter case, a trailing slash or the names of parameters are one path: they share a key. */
export function routeKey(path: string): string {
  const key = path.toLowerCase().replaceAll(/:[^/]+/g, ':p');
  return key.length > 1 && key.endsWith('/') ? key.slice(0, -1) : key;
}
