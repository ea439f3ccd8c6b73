import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/** A host, with or without a port. An IPv6 address is in brackets (RFC 3986 §3.2.2). */
const hostAndPort = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^:]+))(?::[0-9]*)?$/;

/**
 * Whether the listener serves the host of a request. A web page can point its own name at 127.0.0.1 and then send requests
 * here from the browser of an operator (DNS rebinding), but under that name only: not under an IP address, nor under
 * `localhost`.
 *
 * @param fields the request's `Host` header fields: there must be one
 * @param names additional names, in lower case
 */
export function isKnownHost(fields: readonly string[] = [], names: readonly string[]): boolean {
  const [host, ...others] = fields;
  if (host === undefined || others.length > 0) return false;
  const { v6, name } = hostAndPort.exec(host.toLowerCase())?.groups ?? {};
  if (v6 !== undefined) return isIP(v6) === 6;
  return name !== undefined && (name === 'localhost' || isIP(name) === 4 || names.includes(name));
}

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
