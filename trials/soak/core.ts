import type { IncomingMessage, ServerResponse } from 'node:http';
import { WebSocketServer } from 'ws';
import { startCore, type CountingCore } from '../load/core.ts';
import type { Defer } from '../load/stage.ts';
import { reset, type PeerTls } from '../load/tls-socket.ts';

/** Faults by name. A path that ends in `/faults/` and a name causes that fault. */
const faults: Readonly<Record<string, (req: IncomingMessage, res: ServerResponse) => void>> = {
  reset: (req) => reset(req.socket),
  silent: (req) => void req.resume(),
  garbage: (req) => void req.socket.end('what is this?\r\n\r\n'),
  short: (req, res) => {
    res.writeHead(200, { 'Content-Length': 1_000 }).write('not all');
    setTimeout(() => req.socket.destroy(), 5);
  },
  error: (req, res) => {
    req.resume();
    res.writeHead(500, { 'Content-Length': 2 }).end('{}');
  },
};

/** Starts a core that responds, causes faults on request, and echoes WebSocket messages. */
export async function startSoakCore(name: string, defer: Defer, tls: PeerTls): Promise<CountingCore> {
  const special = (req: IncomingMessage, res: ServerResponse): boolean => {
    const fault = faults[/\/faults\/(\w+)$/.exec(req.url ?? '')?.[1] ?? ''];
    fault?.(req, res);
    return fault !== undefined;
  };
  const core = await startCore(name, defer, special, tls);
  // The sidecar closes idle connections one second earlier. After the load, none may be open.
  core.server.keepAliveTimeout = 5_000;
  const webSockets = new WebSocketServer({ server: core.server });
  webSockets.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.on('message', (message: Buffer) => socket.send(message.toString()));
  });
  defer(() => {
    for (const socket of webSockets.clients) socket.terminate();
  });
  return core;
}
