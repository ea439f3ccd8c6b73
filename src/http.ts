import { once } from 'node:events';
import { isIPv4, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';

/**
 * Node's `node:http`. An `import` would evaluate all its exports. One of them, `WebSocket`, loads another HTTP client, which would take up
 * 16 MB of memory without being used.
 */
export const http = process.getBuiltinModule('node:http');

const bearer = /^bearer +(\S+)$/i;

/** The token in an `Authorization` header (RFC 6750 §2.1): the scheme in any case (RFC 9110 §11.1), one or more spaces, then the token. */
export function bearerToken(authorization: string): string | undefined {
  return bearer.exec(authorization)?.[1];
}

/**
 * Whether a host, given without a port, is this machine: `localhost`, or a loopback address as written in configurations, URLs or sockets.
 */
export function isLoopback(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/^::ffff:/, '');
  return name === 'localhost' || name === '::1' || (isIPv4(name) && name.startsWith('127.'));
}

/**
 * How many connections may wait in the kernel to be accepted by a server. A flood of connections would overflow Node's default backlog of
 * 511. The kernel would then drop handshakes of other clients, which retry after 1, 3, 7 … seconds. Linux allows 4,096.
 */
const defaultBacklog = 4_096;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens a server on an address; with port 0, on any free port. Resolves to the bound address.
 *
 * @param shared how many connections may wait in the kernel, for a server whose address other servers may also bind (SO_REUSEPORT).
 *   Undefined if no other server may bind the address
 * @throws the server's error if the address cannot be bound
 */
export async function listen(
  server: NetServer,
  { host, port }: ListenAddress,
  shared?: { readonly backlog: number },
): Promise<AddressInfo> {
  const { backlog } = shared ?? { backlog: defaultBacklog };
  await once(server.listen({ port, host, backlog, reusePort: shared !== undefined }), 'listening');
  return server.address() as AddressInfo;
}

/**
 * How long further bytes from a client are read and discarded, in milliseconds, because a reset could overtake the response (RFC 9112
 * §9.6).
 */
export const lingerTime = 2_000;

/**
 * Sends a problem document on a connection on which Node's parser has given up, and closes the connection. In that case there is no
 * response object to write to.
 */
export function endUnparsed(
  socket: Socket,
  problem: { readonly status: number; readonly title: string; readonly body: string; readonly requestId: string },
): void {
  const { status, title, body, requestId } = problem;
  const response = [
    `HTTP/1.1 ${status} ${title}`,
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    'Cache-Control: no-store',
    'Connection: close',
    '',
    body,
  ].join('\r\n');
  const lingering = setTimeout(() => socket.destroy(), lingerTime);
  socket
    .once('close', () => clearTimeout(lingering))
    .on('error', () => {})
    .resume()
    .end(response);
}
