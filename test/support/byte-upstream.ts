import { createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { listen } from './listen.ts';

/** A connection, seen from the upstream. */
export interface UpstreamConnection {
  readonly socket: Socket;
  /** All bytes received so far, one character each. */
  received: string;
  /** Whether either side has closed the connection. */
  closed: boolean;
}

/** An upstream that reads and writes raw bytes. */
export interface ByteUpstream {
  readonly origin: string;
  readonly port: number;
  /** All connections, in the order in which they were opened. */
  readonly connections: readonly UpstreamConnection[];
}

/** Starts an upstream that accepts connections and never sends a byte. */
export function startSilentUpstream(): Promise<ByteUpstream> {
  return startByteUpstream(() => {});
}

/**
 * Starts an upstream that can send any bytes. `onHead` is called for the first request head of each connection. With `every`, it is called
 * for all later heads too, and the requests must then have no body.
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
  const port = await listen(server);
  onTestFinished(() => {
    for (const { socket } of connections) socket.destroy();
  });
  return { origin: `http://127.0.0.1:${port}`, port, connections };
}
