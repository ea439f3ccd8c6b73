import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/** A host, with or without a port. An IPv6 address is in brackets (RFC 3986 §3.2.2). */
const hostAndPort = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^:]+))(?::[0-9]*)?$/;

/**
 * Whether the listener serves the host of a request. With DNS rebinding, a web page points its own name at 127.0.0.1 and sends requests to
 * this listener from an operator's browser. Such requests name the page's own host, never an IP address or `localhost`.
 *
 * @param fields the request's `Host` header fields, of which there must be exactly one
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
 * Whether a request that carries a cookie comes from a page of this listener. Any other page can make a browser send requests to this
 * listener (cross-site request forgery), but no script can set the headers that are checked here. `Sec-Fetch-Site` is checked first (W3C
 * Fetch Metadata). A browser that does not send that header sends `Origin` with all requests except reads.
 *
 * @param secure whether the listener uses TLS
 */
export function isFromOwnPage(method: string, headers: IncomingHttpHeaders, secure: boolean): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (headers.origin !== undefined) return headers.origin === `${secure ? 'https' : 'http'}://${headers.host ?? ''}`;
  return method === 'GET';
}
