import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Registry } from 'prom-client';
import { ConnectionLimit } from '../connection-limit.ts';
import { bearerToken, http, isLoopback, stopAtDestroyed } from '../http.ts';
import { oneInATurn } from '../proxy/capacity/queues.ts';
import { isDrainToken } from './drain-token.ts';
import { SharedMetrics } from './shared-metrics.ts';
import { describeStatus, type RunningState } from './status.ts';

interface AdminDependencies {
  readonly registry: Registry;
  /**
   * `ready` means: configuration loaded, merchants' listener open, not draining. It does not depend on the upstream, which is the same for
   * all pods.
   */
  readonly state: () => RunningState;
  /** Begins the drain, if it has not begun; resolves when nothing is in flight or its time is over. */
  readonly drain: () => Promise<void>;
  /**
   * Loads the configuration again; resolves once it has been applied or its problems have been reported. Undefined: it cannot be reloaded.
   */
  readonly reload: (() => Promise<void>) | undefined;
  /** The token of a command. Undefined: every command is refused. */
  readonly drainToken: string | undefined;
}

/**
 * Maximum number of connections. Beyond that, the oldest is closed for a new one, so that probes succeed; connections with a command are
 * kept.
 */
const maxConnections = 64;

/** Milliseconds that a client may take to read its response. */
const readingTime = 10_000;

/** The admin listener: health, metrics, and commands from the same machine. Nothing secret. */
export function createAdminListener(dependencies: AdminDependencies): Server {
  const metrics = new SharedMetrics(dependencies.registry);
  const limits = { maxHeaderSize: 8_192, requestTimeout: 10_000, headersTimeout: 5_000 };
  const answer = oneInATurn((req, res) => {
    respond(req, res, { ...dependencies, metrics, connections }).catch(() => res.destroy());
  });
  const server = http.createServer(limits, answer);
  const connections = new ConnectionLimit(server, maxConnections);
  // One request per connection, so that a client cannot pipeline requests and not read the responses, which Node would
  // keep.
  server.maxRequestsPerSocket = 1;
  stopAtDestroyed(server);
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
    // The command may take as long as a drain, and meanwhile anybody in the cluster may open connections.
    connections.keep(req.socket);
    if (path === '/drain') await drain();
    if (path === '/reload') await reload?.();
    send(res, 200, 'application/json', Buffer.from(`${JSON.stringify(describeStatus(state()))}\n`));
  } else {
    text(res, 404, 'not found\n');
  }
}

/** What `sidecar drain`, `reload` and `status` ask for. The response has the state afterwards. */
const commands = ['/drain', '/reload', '/status'] as const;

function isCommand(path: string | undefined): path is (typeof commands)[number] {
  return commands.some((each) => each === path);
}

/**
 * Why a command is refused. The admin port is open to the cluster for scraping, but only a process in the pod with the same user may take
 * the sidecar out of service. Port-forwards, mesh proxies and browsers reach loopback too, but have no token.
 */
function findRefusal(
  command: string,
  { socket, headers }: IncomingMessage,
  expected: string | undefined,
): string | undefined {
  if (!isLoopback(socket.remoteAddress ?? '')) return `${command} is accepted from loopback only`;
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined)
    return `${command} is not accepted from a browser`;
  // Any other name may be DNS rebinding by a web page.
  if (!isLoopback((headers.host ?? '').replace(/:\d+$/, '')))
    return `${command} is accepted on a loopback address only`;
  if (expected === undefined)
    return `this sidecar has no token for ${command}: it is a demo, or could not write one at the start`;
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
