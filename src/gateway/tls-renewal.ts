import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { ServerTls } from '../config/config.ts';
import { waitUntil } from '../promises.ts';
import { tls as nodeTls } from '../tls.ts';
import { secureContextOf } from './listener.ts';

/** Replaces the certificates of a running listener. Whether it demands certificates of its clients does not change. */
export class TlsRenewal {
  readonly #server: TlsServer;
  /** The CA of clients' certificates; undefined if none are demanded. */
  #clientCa: string | undefined;
  /**
   * The connections of clients with certificates, each with its requests in progress. A WebSocket does not count: it may last for
   * hours, and is closed at once.
   */
  readonly #connections = new Map<Socket, { requests: number }>();

  /** @param server not listening yet. One without TLS has nothing to renew. */
  static of(server: Server, tls: ServerTls | undefined): TlsRenewal | undefined {
    return tls !== undefined && server instanceof nodeTls().Server ? new TlsRenewal(server, tls) : undefined;
  }

  private constructor(server: TlsServer, { clientCa }: ServerTls) {
    this.#server = server;
    this.#clientCa = clientCa;
    if (clientCa === undefined) return;
    server.on('secureConnection', (socket) => {
      this.#connections.set(socket, { requests: 0 });
      socket.once('close', () => this.#connections.delete(socket));
    });
    const begun = (req: IncomingMessage, res: ServerResponse): void => {
      const use = this.#connections.get(req.socket);
      if (use === undefined) return;
      use.requests += 1;
      res.once('close', () => (use.requests -= 1));
    };
    for (const event of ['request', 'checkContinue', 'checkExpectation']) server.prependListener(event, begun);
  }

  /**
   * Uses another certificate, its key and client CA. Connections that the previous CA admitted are closed: at once, or with the
   * response in progress.
   */
  renew(tls: ServerTls): void {
    // Without `ca` Node uses its own list of public CAs, so that any of their clients would be accepted: a CA that was removed
    // stays until the restart that the log asks for.
    const clientCa = this.#clientCa === undefined ? undefined : (tls.clientCa ?? this.#clientCa);
    this.#server.setSecureContext(secureContextOf({ ...tls, clientCa }));
    if (clientCa === this.#clientCa) return;
    this.#clientCa = clientCa;
    for (const [socket, use] of this.#connections) {
      this.#connections.delete(socket);
      if (use.requests === 0) socket.destroy();
      else void waitUntil(() => socket.destroyed || use.requests === 0, Infinity).then(() => socket.destroy());
    }
  }
}
