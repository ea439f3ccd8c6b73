import { createServer, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A connection as the upstream has it. */
export interface UpstreamConnection {
  readonly socket: Socket;
  /** All that came so far, a character a byte. */
  received: string;
  /** Whether it is over, no matter which side ended it. */
  closed: boolean;
}

/** An upstream that is nothing but bytes. */
export interface ByteUpstream {
  readonly origin: string;
  readonly port: number;
  /** In the order they came. */
  readonly connections: readonly UpstreamConnection[];
}

/**
 * Starts an upstream that can say anything. `onHead` is called for the first head of each connection, and with `every`
 * for all further ones too (whose requests must have no body then).
 */
export async function startByteUpstream(
  onHead: (connection: UpstreamConnection) => void,
  { every = false }: { readonly every?: boolean } = {},
): Promise<ByteUpstream> {
  const connections: UpstreamConnection[] = [];
  const server = createServer((socket) => {
    const connection: UpstreamConnection = { socket, received: '', closed: false };
    connections.push(connection);
    let heads = 0;
    socket.on('error', () => {});
    socket.on('close', () => {
      connection.closed = true;
    });
    socket.on('data', (chunk: Buffer) => {
      connection.received += chunk.toString('latin1');
      const seen = connection.received.split('\r\n\r\n').length - 1;
      for (; heads < seen; heads += 1) if (heads === 0 || every) onHead(connection);
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const { socket } of connections) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, port, connections };
}
