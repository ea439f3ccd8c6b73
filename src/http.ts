import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Node's `node:http`. An `import` of it would read everything that it exports, `WebSocket` among it, which loads another
 * HTTP client: 16 MB of memory that is not needed here.
 */
export const http = process.getBuiltinModule('node:http');

/**
 * Opens a server on an address; port 0 takes a free one. Resolves to the address it has bound.
 *
 * @throws the server's error if the address cannot be bound
 */
export async function listen(server: Server, { host, port }: { host: string; port: number }): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return server.address() as AddressInfo;
}

/** How many connections are open. */
export function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)));
  });
}
