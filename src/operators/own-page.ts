import type { IncomingHttpHeaders } from 'node:http';

/**
 * Whether a request that carries a cookie comes from a page of this listener. Any other page can make a browser send
 * requests here (cross-site request forgery), but not under these headers, which a script cannot set. `Sec-Fetch-Site`
 * is checked first (W3C Fetch Metadata); a browser without it sends `Origin` with all requests except reads.
 *
 * @param secure whether the listener speaks TLS
 */
export function isFromOwnPage(method: string, headers: IncomingHttpHeaders, secure: boolean): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (headers.origin !== undefined) return headers.origin === `${secure ? 'https' : 'http'}://${headers.host ?? ''}`;
  return method === 'GET';
}
