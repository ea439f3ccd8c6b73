import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isIPv4, type Socket } from 'node:net';
import type { Registry } from 'prom-client';
import { http, stopAtDestroyed } from '../http.ts';
import { isDrainToken } from './drain-token.ts';
import { SharedMetrics } from './shared-metrics.ts';

interface AdminDependencies {
  readonly registry: Registry;
  /**
   * Configuration loaded, merchants' listener open, not draining. Does not depend on the upstream, which is the same
   * for all pods.
   */
  readonly isReady: () => boolean;
  /** Begins the drain, if it has not begun; resolves when nothing is in flight or its time is over. */
  readonly drain: () => Promise<void>;
  /** The token of a request for a drain. Undefined: every such request is refused. */
  readonly drainToken: string | undefined;
}

/** The most connections. Beyond that the oldest is closed for a new one, so that probes succeed. */
const maxConnections = 64;

/** Milliseconds that a client may take to read its response. */
const readingTime = 10_000;

/** The admin listener: health, metrics and the start of a drain. Nothing secret. */
export function createAdminListener(dependencies: AdminDependencies): Server {
  const metrics = new SharedMetrics(dependencies.registry);
  const limits = { maxHeaderSize: 8_192, requestTimeout: 10_000, headersTimeout: 5_000 };
  const server = http.createServer(limits, (req, res) => {
    respond(req, res, metrics, dependencies).catch(() => res.destroy());
  });
  // One request per connection, so that a client cannot pipeline requests and not read the responses, which Node would
  // keep.
  server.maxRequestsPerSocket = 1;
  stopAtDestroyed(server);
  server.on('dropRequest', (_req, socket) => void socket.destroy());
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    const [oldest] = connections;
    if (connections.size >= maxConnections) oldest?.destroy();
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  return server;
}

async function respond(
  req: IncomingMessage,
  res: ServerResponse,
  metrics: SharedMetrics,
  { registry, isReady, drain, drainToken }: AdminDependencies,
): Promise<void> {
  const path = req.url?.split('?', 1)[0];
  const isRead = req.method === 'GET' || req.method === 'HEAD';
  if (path === '/livez' && isRead) {
    text(res, 200, 'ok\n');
  } else if (path === '/readyz' && isRead) {
    if (isReady()) text(res, 200, 'ready\n');
    else text(res, 503, 'not ready\n');
  } else if (path === '/metrics' && isRead) {
    send(res, 200, registry.contentType, await metrics.text());
  } else if (path === '/drain' && req.method === 'POST') {
    const refusal = drainRefusal(req, drainToken);
    if (refusal !== undefined) {
      text(res, 403, refusal);
      return;
    }
    await drain();
    text(res, 200, 'drained\n');
  } else {
    text(res, 404, 'not found\n');
  }
}

/**
 * Why a drain is refused. The admin port is open to the cluster for scraping, but only a process in the pod with the
 * same user may take it out of service. Port-forwards, mesh proxies and browsers reach loopback too, but have no token.
 */
function drainRefusal({ socket, headers }: IncomingMessage, expected: string | undefined): string | undefined {
  if (!isLoopback(socket.remoteAddress ?? '')) return 'drain is accepted from loopback only\n';
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined)
    return 'drain is not accepted from a browser\n';
  if (!isLoopbackHost(headers.host ?? '')) return 'drain is accepted on a loopback address only\n';
  if (expected === undefined) return 'drain has no token: it could not be written at the start\n';
  const token = /^Bearer ([\w-]+)$/.exec(headers.authorization ?? '')?.[1];
  return token !== undefined && isDrainToken(token, expected) ? undefined : 'drain needs the token of this sidecar\n';
}

function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

/** Any other name may be DNS rebinding by a web page. */
function isLoopbackHost(host: string): boolean {
  const name = host.replace(/:\d+$/, '').toLowerCase();
  return name === 'localhost' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'));
}

function text(res: ServerResponse, status: number, body: string): void {
  send(res, status, 'text/plain; charset=utf-8', Buffer.from(body));
}

function send(res: ServerResponse, status: number, type: string, body: Buffer): void {
  const deadline = setTimeout(() => res.destroy(), readingTime).unref();
  res.once('close', () => clearTimeout(deadline));
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length }).end(body);
}
