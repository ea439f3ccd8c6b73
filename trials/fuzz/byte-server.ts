import { once } from 'node:events';
import { createServer, type Socket, type AddressInfo } from 'node:net';
import { securedByServer, type PeerTls } from '../load/tls-socket.ts';

/** A TCP server that stands in for the sidecar's upstream, and leaves the bytes to the caller. */
export interface ByteServer {
  readonly origin: string;
  close(): Promise<void>;
}

/**
 * libuv accepts one connection per turn of the event loop, and turns take long here, so one socket would be too slow.
 */
const listeningSockets = 32;

/** @param onData receives all unprocessed bytes of a connection, and returns those that it leaves unprocessed */
export async function startByteServer(
  onData: (bytes: string, socket: Socket) => string,
  tls?: PeerTls,
): Promise<ByteServer> {
  const sockets = new Set<Socket>();
  const onConnection = (tcp: Socket): void => {
    const socket = tls === undefined ? tcp : securedByServer(tcp, tls);
    sockets.add(socket);
    let left = '';
    tcp.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      left = onData(left + chunk.toString('latin1'), socket);
    });
  };
  const servers = Array.from({ length: listeningSockets }, () => createServer(onConnection));
  let port = 0;
  for (const server of servers) {
    await once(server.listen({ host: '127.0.0.1', port, backlog: 4_096, reusePort: true }), 'listening');
    ({ port } = server.address() as AddressInfo);
  }
  return {
    origin: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    close: async () => {
      const closed = servers.map((server) => new Promise((resolve) => void server.close(resolve)));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
    },
  };
}
