import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Node's `node:http`. An `import` would evaluate all its exports, of which `WebSocket` loads another HTTP client: 16 MB of
 * unused memory.
 */
export const http = process.getBuiltinModule('node:http');

const bearer = /^bearer +(\S+)$/i;

/** The token of an `Authorization` header (RFC 6750 §2.1), the scheme in any case (RFC 9110 §11.1), one or more spaces. */
export function bearerToken(authorization: string): string | undefined {
  return bearer.exec(authorization)?.[1];
}

/**
 * The most connections that wait in the kernel to be accepted. Node's 511 are fewer than a flood opens between two
 * turns of the event loop. The kernel then drops handshakes of others, which are repeated after 1, 3, 7 … seconds.
 * Linux allows 4,096.
 */
const backlog = 4_096;

/**
 * Opens a server on an address; port 0 takes a free one. Resolves to the address it has bound.
 *
 * @param where with `reusePort`, other servers of this user may open the same port
 * @throws the server's error if the address cannot be bound
 */
export async function listen(
  server: NetServer,
  where: { readonly host: string; readonly port: number; readonly reusePort?: true },
): Promise<AddressInfo> {
  const { host, port, reusePort } = where;
  await once(server.listen({ port, host, backlog, reusePort }), 'listening');
  return server.address() as AddressInfo;
}

/** How often a claim is tried, and the milliseconds in between: a sidecar opens its port in less time than all of them take. */
const claimAttempts = 100;
const claimInterval = 20;

/**
 * Claims a port on all addresses while it is opened, so that sidecars open it one after the other. The claim is a name that one
 * process can have in the port's network namespace (an abstract socket, unix(7)).
 *
 * @param host for the message of the error
 * @returns a server to close once the port is open
 * @throws EADDRINUSE if another process keeps the claim
 */
async function claimPort(host: string, port: number): Promise<NetServer> {
  const claim = createServer();
  for (let attempt = 0; attempt < claimAttempts; attempt += 1) {
    try {
      await once(claim.listen(`\0envelope-sidecar port ${port}`), 'listening');
      return claim;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
    await sleep(claimInterval);
  }
  throw new Error(`listen EADDRINUSE: address already in use ${host}:${port}`);
}

/** The most sockets of one listener. */
const maxSockets = 128;

/** Connections of the limit for each socket. */
const connectionsPerSocket = 8;

/**
 * The sockets that accept connections for one HTTP server, all on the same port (SO_REUSEPORT): libuv accepts one connection
 * of each socket in a turn of the event loop, so that with one socket a flood of connections keeps new ones of others waiting for
 * seconds. The kernel spreads connections over the sockets.
 */
export class Acceptors {
  readonly server: Server;
  readonly #others: NetServer[];

  /**
   * @param server not listening yet
   * @param connections the limit of open connections: those that are accepted in a turn must not displace each other
   * before their first request is read
   */
  constructor(server: Server, connections: number) {
    this.server = server;
    const sockets = Math.max(1, Math.min(maxSockets, Math.floor(connections / connectionsPerSocket)));
    const options = { allowHalfOpen: !('setSecureContext' in server), noDelay: true };
    this.#others = Array.from({ length: sockets - 1 }, () =>
      createServer(options, (socket) => void server.emit('connection', socket)),
    );
  }

  /**
   * Opens all sockets on one address; port 0 takes a free one. Resolves to the address.
   *
   * @throws the error of a socket if the address cannot be bound; none is open then
   */
  async open({ host, port }: { host: string; port: number }): Promise<AddressInfo> {
    // The kernel finds a free port for port 0.
    if (port === 0) return this.#openSockets({ host, port });
    // The kernel lets processes of one user share a port, which must stay an error: the probe fails if the port is open on an
    // address that overlaps with this one. The claim keeps other sidecars from opening it between the probe and the opening.
    const claim = await claimPort(host, port);
    try {
      const probe = createServer();
      await listen(probe, { host, port });
      await once(probe.close(), 'close');
      return await this.#openSockets({ host, port });
    } finally {
      claim.close();
    }
  }

  /** @throws the error of a socket; none is open then */
  async #openSockets(where: { readonly host: string; readonly port: number }): Promise<AddressInfo> {
    const bound = await listen(this.server, { ...where, reusePort: true });
    try {
      for (const other of this.#others) await listen(other, { host: bound.address, port: bound.port, reusePort: true });
    } catch (error) {
      this.close();
      throw error;
    }
    return bound;
  }

  /** Closes all sockets and idle connections. Busy connections stay open. */
  close(): void {
    this.server.close();
    for (const other of this.#others) other.close();
  }

  closeAllConnections(): void {
    this.server.closeAllConnections();
  }
}

/** How long further bytes of a client are discarded, so that a reset does not overtake its response (RFC 9112 §9.6). */
export const lingerTime = 2_000;

/**
 * Sends a problem document on a connection on which Node's parser gave up, and closes it: there is no response object to write
 * to.
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

/** Node's parser calls `onIncoming` at the end of each head; the result is that of llhttp's `on_headers_complete`. */
interface Parser {
  onIncoming: (req: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Any value that llhttp does not know makes it stop. */
const stopParsing = -1;

/**
 * Stops reading requests on a connection as soon as the server has destroyed it. Node would parse all the bytes it has read:
 * 64 KiB are thousands of requests, each kept with a response until the connection has closed. There is no documented way:
 * `parser` is Node's own, and test/gateway/pipelined.test.ts shows that it works.
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

/** Bytes of a piece that is passed on at once. */
const largePiece = 512;

/** Bytes that are gathered at most, and at first. */
const maxGathered = 16_384;
const minGathered = 1_024;

/**
 * A request that passes on small pieces of its body together: once in a turn of the event loop, or when the body is read. Node's
 * parser makes a piece of each chunk and of each read: 64 KiB can be 10,900 chunks, each of which would be charged, hashed or
 * written to the upstream on its own, and a body that trickles in before it is read would take a thousand times its size.
 */
export class GatheringRequest extends http.IncomingMessage {
  #isFirst = true;
  #gathered: Buffer | undefined;
  #length = 0;
  #passesOnAtResume = false;

  /** Takes a piece from the parser, or null at the end of the body. @returns false if no more should be read for now */
  override push(piece: Buffer | null): boolean {
    // Most bodies are one piece: the first never waits.
    if (piece === null || this.#isFirst || piece.length >= largePiece) {
      this.#isFirst = false;
      this.#passOn();
      return super.push(piece);
    }
    if (this.#length + piece.length > maxGathered) this.#passOn();
    this.#gather(piece);
    return this.readableLength + this.#length < this.readableHighWaterMark;
  }

  #gather(piece: Buffer): void {
    const before = this.#gathered;
    const length = this.#length + piece.length;
    if (before === undefined) {
      this.#gathered = Buffer.allocUnsafe(minGathered);
      this.#passOnLater();
    } else if (length > before.length) {
      this.#gathered = Buffer.allocUnsafe(before.length * 2);
      before.copy(this.#gathered);
    }
    this.#gathered?.set(piece, this.#length);
    this.#length = length;
  }

  #passOnLater(): void {
    if (this.readableFlowing === true) {
      setImmediate(() => this.#passOn());
    } else if (!this.#passesOnAtResume) {
      this.#passesOnAtResume = true;
      this.once('resume', () => {
        this.#passesOnAtResume = false;
        this.#passOn();
      });
    }
  }

  #passOn(): void {
    const gathered = this.#gathered?.subarray(0, this.#length);
    this.#gathered = undefined;
    this.#length = 0;
    if (gathered !== undefined) super.push(gathered);
  }
}
