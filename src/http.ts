import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/**
 * Node's `node:http`. An `import` would evaluate all its exports, of which `WebSocket` loads another HTTP client: 16 MB of
 * unused memory.
 */
export const http = process.getBuiltinModule('node:http');

/**
 * Connections that wait in the kernel to be accepted. Node's 511 are fewer than a flood brings between two turns of the
 * event loop: the kernel then drops handshakes of others, who try again after 1, 3, 7 … seconds. Linux allows 4,096.
 */
const backlog = 4_096;

/**
 * Opens a server on an address; port 0 takes a free one. Resolves to the address it has bound.
 *
 * @throws the server's error if the address cannot be bound
 */
export async function listen(server: Server, { host, port }: { host: string; port: number }): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, backlog }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return server.address() as AddressInfo;
}

/** The number of open connections. */
export function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}

/** What Node's parser calls at the end of each head; its result is that of llhttp's `on_headers_complete`. */
interface Parser {
  onIncoming: (req: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Any value that llhttp does not know makes it stop. */
const stopParsing = -1;

/**
 * Has a server stop reading requests at once on a connection that it has destroyed. Node would go on with all that it has
 * read: 64 KiB are thousands of requests, and it keeps them, each with a response, until the connection has closed. There
 * is no documented way: `parser` is what Node itself uses, and test/gateway/pipelined.test.ts shows that it works.
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
