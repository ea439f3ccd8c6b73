import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Defer } from './stage.ts';
import type { PeerTls } from './tls-socket.ts';

/** A payment core that counts payments, and whose responses name the core, the API key and the payment. */
export interface CountingCore {
  readonly name: string;
  readonly origin: string;
  readonly server: Server;
  /** How many times the core saw each payment, by idempotency key. */
  readonly seen: ReadonlyMap<string, number>;
  /**
   * The idempotency keys of payments that may be sent again if their connection ends (RFC 9110 §9.2.2): GETs without a
   * body.
   */
  readonly retryable: ReadonlySet<string>;
}

/** The response of a core. */
export interface CoreResponse {
  readonly core: string;
  readonly apiKey: string;
  readonly id: string;
  /** The length of the request's body, in bytes. */
  readonly length: number;
  readonly padding: string;
}

/** How long requests for a path that ends in `/slow` take, in milliseconds. */
const slowness = 100;

/**
 * @param special handles requests that need a different response, and returns true for these
 * @param tls if given, clients must present a certificate
 */
export async function startCore(
  name: string,
  defer: Defer,
  special: (req: IncomingMessage, res: ServerResponse) => boolean = () => false,
  tls?: PeerTls,
): Promise<CountingCore> {
  const seen = new Map<string, number>();
  const retryable = new Set<string>();
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    const id = String(req.headers['idempotency-key']);
    seen.set(id, (seen.get(id) ?? 0) + 1);
    if (req.method === 'GET' && req.headers['content-length'] === undefined) retryable.add(id);
    req.on('error', () => {});
    if (special(req, res)) return;
    const padding = 'x'.repeat(Number(/\/padded\/(\d+)$/.exec(req.url ?? '')?.[1] ?? 0));
    let length = 0;
    req.on('data', (chunk: Buffer) => (length += chunk.length));
    req.on('end', () => {
      const response: CoreResponse = { core: name, apiKey: String(req.headers['x-api-key-id']), id, length, padding };
      const end = (): void => void res.setHeader('Content-Type', 'application/json').end(JSON.stringify(response));
      if (req.url?.endsWith('/slow') === true) setTimeout(end, slowness);
      else end();
    });
  };
  const server = tls === undefined ? createServer(serve) : createTlsServer({ ...tls, requestCert: true }, serve);
  // This is longer than the sidecar keeps a connection, because another trial tests races at the end of a connection.
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const origin = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  return { name, origin, server, seen, retryable };
}

/** Returns a problem for each payment that the cores saw too often. */
export function seenTwice(...cores: readonly CountingCore[]): string[] {
  const counts = new Map<string, number>();
  const retryable = new Set(cores.flatMap((core) => [...core.retryable]));
  for (const { seen } of cores) for (const [id, count] of seen) counts.set(id, (counts.get(id) ?? 0) + count);
  const tooOften = [...counts].filter(([id, count]) => count > (retryable.has(id) ? 2 : 1));
  return tooOften.map(([id, count]) => `${id} was seen ${count} times`);
}
