import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isIPv4 } from 'node:net';
import type { Registry } from 'prom-client';
import { http } from '../http.ts';

/** What the admin listener tells and starts. */
export interface AdminDependencies {
  readonly registry: Registry;
  /** Configuration loaded, merchants' listener open, not draining. The upstream does not matter: other pods' are the same. */
  readonly isReady: () => boolean;
  /** Begins the drain, if it has not begun; resolves when nothing is in flight or its time is over. */
  readonly drain: () => Promise<void>;
}

/** The admin listener: health, metrics and the begin of the drain. Nothing secret. */
export function createAdminListener(dependencies: AdminDependencies): Server {
  return http.createServer({ maxHeaderSize: 8_192, requestTimeout: 10_000, headersTimeout: 5_000 }, (req, res) => {
    respond(req, res, dependencies).catch(() => res.destroy());
  });
}

async function respond(
  req: IncomingMessage,
  res: ServerResponse,
  { registry, isReady, drain }: AdminDependencies,
): Promise<void> {
  const path = req.url?.split('?', 1)[0];
  const isRead = req.method === 'GET' || req.method === 'HEAD';
  if (path === '/livez' && isRead) {
    text(res, 200, 'ok\n');
  } else if (path === '/readyz' && isRead) {
    if (isReady()) text(res, 200, 'ready\n');
    else text(res, 503, 'draining\n');
  } else if (path === '/metrics' && isRead) {
    const metrics = await registry.metrics();
    res.writeHead(200, { 'Content-Type': registry.contentType }).end(metrics);
  } else if (path === '/drain' && req.method === 'POST') {
    // The admin port is open to the cluster for scraping; only who is in the pod may take it out of service.
    if (!isLoopback(req.socket.remoteAddress ?? '')) {
      text(res, 403, 'drain is accepted from loopback only\n');
      return;
    }
    await drain();
    text(res, 200, 'drained\n');
  } else {
    text(res, 404, 'not found\n');
  }
}

function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'));
}

function text(res: ServerResponse, status: number, body: string): void {
  res
    .writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': Buffer.byteLength(body) })
    .end(body);
}
