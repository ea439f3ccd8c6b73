import { Agent, request, type IncomingHttpHeaders } from 'node:http';
import { Agent as TlsAgent, request as requestOverTls } from 'node:https';
import type { ConnectionOptions } from 'node:tls';

/** How a client verifies its server, and how it authenticates itself. */
export type ClientTls = Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized'>;

/** A merchant's request. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The outcome of a request. */
export type Outcome =
  | {
      readonly kind: 'answered';
      /** Whether the request used the connection of an earlier request. */
      readonly reused: boolean;
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    }
  /** The port is closed, so a gateway would use another sidecar. */
  | { readonly kind: 'refused' }
  /** The connection ended before the response was complete. */
  | { readonly kind: 'broken'; readonly begun: boolean; readonly reused: boolean; readonly cause: string };

/** A client with one keep-alive connection. It opens a new one after `Connection: close`. */
export class KeepAliveClient {
  readonly #port: number;
  readonly #agent: Agent;
  readonly #request: typeof request;

  constructor(port: number, tls?: ClientTls) {
    this.#port = port;
    const options = { keepAlive: true, maxSockets: 1 };
    this.#agent = tls === undefined ? new Agent(options) : new TlsAgent({ ...options, ...tls });
    this.#request = tls === undefined ? request : requestOverTls;
  }

  ask({ method, path, headers, body }: Asked): Promise<Outcome> {
    return new Promise((resolve) => {
      let begun = false;
      const broken = (cause: string): void =>
        resolve(
          cause === 'ECONNREFUSED' ? { kind: 'refused' } : { kind: 'broken', begun, reused: req.reusedSocket, cause },
        );
      const sized = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
      const req = this.#request(
        { agent: this.#agent, host: '127.0.0.1', port: this.#port, method, path, headers: { ...headers, ...sized } },
        (res) => {
          begun = true;
          const chunks: Buffer[] = [];
          res.on('data', (chunk: Buffer) => chunks.push(chunk));
          res.on('error', (error: NodeJS.ErrnoException) => broken(error.code ?? error.name));
          res.on('end', () => {
            const { statusCode: status = 0, headers: answered } = res;
            resolve({
              kind: 'answered',
              reused: req.reusedSocket,
              status,
              headers: answered,
              body: Buffer.concat(chunks).toString(),
            });
          });
        },
      );
      req.on('error', (error: NodeJS.ErrnoException) => broken(error.code ?? error.name));
      req.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
