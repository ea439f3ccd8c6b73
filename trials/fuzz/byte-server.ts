import { createServer, type AddressInfo, type Socket } from 'node:net';
import { securedByServer, type PeerTls } from '../load/tls-socket.ts';

/** A server of raw bytes, as the sidecar's upstream. */
export interface ByteServer {
  readonly origin: string;
  close(): Promise<void>;
}

/** @param onData called with all unprocessed bytes of a connection; returns those that it does not process */
export async function startByteServer(
  onData: (bytes: string, socket: Socket) => string,
  tls?: PeerTls,
): Promise<ByteServer> {
  const sockets = new Set<Socket>();
  const server = createServer((tcp) => {
    const socket = tls === undefined ? tcp : securedByServer(tcp, tls);
    sockets.add(socket);
    let left = '';
    tcp.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      left = onData(left + chunk.toString('latin1'), socket);
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
