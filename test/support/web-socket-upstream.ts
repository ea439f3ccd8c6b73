import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { onTestFinished } from 'vitest';
import { WebSocketServer, type RawData, type WebSocket } from 'ws';
import { listen } from './listen.ts';

/** An upstream for WebSockets. */
export interface WebSocketUpstream {
  readonly origin: string;
  readonly port: number;
  readonly handshakes: readonly IncomingMessage[];
  /** The upstream's sides of the WebSockets, in the order of `handshakes`. */
  readonly sockets: readonly WebSocket[];
}

/** Starts an upstream that accepts WebSockets and echoes their messages. `respond` gets requests that are not handshakes. */
export async function startWebSocketUpstream(
  server: Server = createServer(),
  respond: RequestListener = (_req, res) => void res.end('{}'),
): Promise<WebSocketUpstream> {
  const handshakes: IncomingMessage[] = [];
  const sockets: WebSocket[] = [];
  server.on('request', respond);
  new WebSocketServer({ server }).on('connection', (socket, req) => {
    handshakes.push(req);
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('message', (data: RawData, isBinary) => socket.send(data, { binary: isBinary }));
  });
  const port = await listen(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.terminate();
  });
  return { origin: `http://127.0.0.1:${port}`, port, handshakes, sockets };
}
