import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { ConnectionLimit } from '../connection-limit.ts';
import { bearerToken, http, isLoopback } from '../http.ts';
import { limitParser } from '../parser-limits.ts';
import { oneInATurn } from '../proxy/capacity/queues.ts';
import { isDrainToken } from './drain-token.ts';
import { SharedMetrics } from './shared-metrics.ts';
import type { RunningState } from '../config/file-states.ts';
import { describeStatus } from './status.ts';

interface AdminDependencies {
  readonly registry: Registry;
  /**
   * `ready` means that the listeners are open, the accounts have been reached once, and the sidecar is not draining. It does not depend on
   * the upstream, because all pods have the same upstream.
   */
  readonly state: () => RunningState;
  /** Begins the drain unless it has begun. Resolves when no request is in flight or the drain's time has passed. */
  readonly drain: () => Promise<void>;
  /**
   * Loads the configuration again. Resolves once it has been applied or its problems have been reported. Undefined if the configuration
   * cannot be reloaded.
   */
  readonly reload: (() => Promise<void>) | undefined;
  /** The token that commands must carry. If undefined, every command is refused. */
  readonly drainToken: string | undefined;
}

/**
 * Maximum number of connections. When a new connection exceeds it, the oldest one is closed, so that probes succeed. Connections with a
 * command are kept, however old they are.
 */
const maxConnections = 64;

/** How many milliseconds a client may take to read its response. */
const readingTime = 10_000;

/** The admin listener: health, metrics, and commands from the same machine. Its responses contain no secrets. */
export function createAdminListener(dependencies: AdminDependencies): Server {
  const metrics = new SharedMetrics(dependencies.registry);
  const limits = { maxHeaderSize: 8_192, requestTimeout: 10_000, headersTimeout: 5_000 };
  const answer = oneInATurn((req, res) => {
    respond(req, res, { ...dependencies, metrics, connections }).catch(() => res.destroy());
  });
  const server = http.createServer(limits, answer);
  const connections = new ConnectionLimit(server, maxConnections);
  // Each connection may carry only one request. Otherwise a client could pipeline requests without reading the responses, and Node would
  // keep all responses in memory.
  server.maxRequestsPerSocket = 1;
  limitParser(server);
  server.on('dropRequest', (_req, socket) => void socket.destroy());
  return server;
}

interface Responding extends AdminDependencies {
  readonly metrics: SharedMetrics;
  readonly connections: ConnectionLimit;
}

async function respond(
  req: IncomingMessage,
  res: ServerResponse,
  { state, drain, reload, drainToken, metrics, connections, registry }: Responding,
): Promise<void> {
  const path = req.url?.split('?', 1)[0];
  const isRead = req.method === 'GET' || req.method === 'HEAD';
  if (path === '/livez' && isRead) {
    text(res, 200, 'ok\n');
  } else if (path === '/readyz' && isRead) {
    if (state().ready) text(res, 200, 'ready\n');
    else text(res, 503, 'not ready\n');
  } else if (path === '/metrics' && isRead) {
    send(res, 200, registry.contentType, await metrics.text());
  } else if (isCommand(path) && req.method === 'POST') {
    const refusal = findRefusal(path.slice(1), req, drainToken);
    if (refusal !== undefined) {
      text(res, 403, `${refusal}\n`);
      return;
    }
    // The command may take as long as a drain. During that time, anyone in the cluster could open so many connections that this one would
    // be closed.
    connections.keep(req.socket);
    if (path === '/drain') await drain();
    if (path === '/reload') await reload?.();
    send(res, 200, 'application/json', Buffer.from(`${JSON.stringify(describeStatus(state()))}\n`));
  } else {
    text(res, 404, 'not found\n');
  }
}

/** The paths that `sidecar drain`, `reload` and `status` request. The response contains the state after the command. */
const commands = ['/drain', '/reload', '/status'] as const;

function isCommand(path: string | undefined): path is (typeof commands)[number] {
  return commands.some((each) => each === path);
}

/**
 * Why a command is refused; undefined if it is accepted. The admin port is open to the cluster for scraping, but only a process in the pod
 * with the same user may take the sidecar out of service. Port-forwards, mesh proxies and browsers reach loopback too, but have no token.
 */
function findRefusal(
  command: string,
  { socket, headers }: IncomingMessage,
  expected: string | undefined,
): string | undefined {
  if (!isLoopback(socket.remoteAddress ?? '')) return `${command} is accepted from loopback only`;
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined)
    return `${command} is not accepted from a browser`;
  // A request with any other host name may come from a web page that uses DNS rebinding.
  if (!isLoopback((headers.host ?? '').replace(/:\d+$/, '')))
    return `${command} is accepted on a loopback address only`;
  if (expected === undefined)
    return `this sidecar has no token for ${command}: it is a demo, or could not write one at startup`;
  const token = bearerToken(headers.authorization ?? '');
  return token !== undefined && isDrainToken(token, expected)
    ? undefined
    : `${command} needs the token that this sidecar writes once it has started`;
}

function text(res: ServerResponse, status: number, body: string): void {
  send(res, status, 'text/plain; charset=utf-8', Buffer.from(body));
}

function send(res: ServerResponse, status: number, type: string, body: Buffer): void {
  const deadline = setTimeout(() => res.destroy(), readingTime).unref();
  res.once('close', () => clearTimeout(deadline));
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length }).end(body);
}
