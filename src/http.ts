import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import { isIPv4, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';

/**
 * Node's `node:http`. An `import` would evaluate all its exports, including `WebSocket`, which loads another HTTP client: 16 MB of unused
 * memory.
 */
export const http = process.getBuiltinModule('node:http');

const bearer = /^bearer +(\S+)$/i;

/** The token of an `Authorization` header (RFC 6750 §2.1): the scheme in any case (RFC 9110 §11.1), then one or more spaces. */
export function bearerToken(authorization: string): string | undefined {
  return bearer.exec(authorization)?.[1];
}

/**
 * Whether a host, without a port, is this machine: `localhost`, or a loopback address as written in the configuration, a URL or a socket.
 */
export function isLoopback(host: string): boolean {
  const name = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/^::ffff:/, '');
  return name === 'localhost' || name === '::1' || (isIPv4(name) && name.startsWith('127.'));
}

/**
 * How many connections may wait in the kernel to be accepted. A connection flood overflows Node's default backlog of 511; the kernel then
 * drops handshakes of other clients, which retry after 1, 3, 7 … seconds. Linux allows 4,096.
 */
const backlog = 4_096;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens a server on an address; port 0 takes a free port. Resolves to the bound address.
 *
 * @param reusePort whether other servers may bind the same address (SO_REUSEPORT)
 * @throws the server's error if the address cannot be bound
 */
export async function listen(
  server: NetServer,
  { host, port }: ListenAddress,
  reusePort = false,
): Promise<AddressInfo> {
  await once(server.listen({ port, host, backlog, reusePort }), 'listening');
  return server.address() as AddressInfo;
}

/** How long a client's further bytes are discarded, so that a reset does not overtake the response (RFC 9112 §9.6). Milliseconds. */
export const lingerTime = 2_000;

/** Sends a problem document on a connection on which Node's parser has given up, and closes it: there is no response object to write to. */
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

/** Node's parser calls `onIncoming` at the end of each head and takes its result for that of llhttp's `on_headers_complete`. */
interface Parser {
  onIncoming: (req: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Any value that llhttp does not know makes it stop. */
const stopParsing = -1;

/**
 * Stops reading requests on a connection as soon as the server has destroyed it. Node would parse all the bytes it has read:
 * 64 KiB are thousands of requests, each kept with a response until the connection has closed. There is no documented way:
 * `parser` is Node's own, and test/proxy/pipelined.test.ts shows that it works.
 */
export function stopAtDestroyed(server: Server): void {
  const watch = (socket: Socket & { parser?: Parser }): void => {
    const { parser } = socket;
    if (parser === undefined) return;
    const onIncoming = parser.onIncoming;
    parser.onIncoming = (req, shouldKeepAlive) => (socket.destroyed ? stopParsing : onIncoming(req, shouldKeepAlive));
  };
  server.on('setSecureContext' in server ? 'secureConnection' : 'connection', watch);
}
