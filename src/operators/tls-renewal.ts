import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { ServerTls } from '../config/config.ts';
import { formatEndpoints } from '../connection-limit.ts';
import { renewedTls, secureContext, tls as nodeTls, type ListenerTls } from '../tls.ts';

/** Replaces the certificates of a running listener. Does not change whether the listener requires client certificates. */
export class TlsRenewal {
  readonly #server: TlsServer;
  #tls: ListenerTls;
  /** The connections of clients with certificates, each with its responses in progress. */
  readonly #connections = new Map<Socket, Set<ServerResponse>>();
  /** Connections that a previous CA has admitted. Each is closed after the response in progress. */
  readonly #retired = new WeakSet<Socket>();
  /** TCP connections whose handshake is not complete, by the addresses of both ends. */
  readonly #handshaking = new Map<string, Socket>();

  /** @param server must not be listening yet. For a server without TLS, the result is undefined. */
  static of(server: Server, tls: ServerTls | undefined): TlsRenewal | undefined {
    if (tls === undefined || !(server instanceof nodeTls().Server)) return undefined;
    return new TlsRenewal(server, tls);
  }

  private constructor(server: TlsServer, tls: ServerTls) {
    this.#server = server;
    this.#tls = tls;
    server.on('connection', (socket: Socket) => this.#watchHandshake(socket));
    server.prependListener('secureConnection', (socket) => this.#handshaking.delete(formatEndpoints(socket)));
    if (tls.clientCa === undefined) return;
    server.on('secureConnection', (socket) => {
      this.#connections.set(socket, new Set());
      socket.once('close', () => this.#connections.delete(socket));
    });
    const begun = (req: IncomingMessage, res: ServerResponse): void => {
      const { socket } = req;
      // The request arrived after the connection's last response.
      if (this.#retired.has(socket)) socket.destroy();
      const responses = this.#connections.get(socket)?.add(res);
      if (responses === undefined) return;
      res.once('close', () => {
        responses.delete(res);
        if (responses.size === 0 && this.#retired.has(socket)) socket.destroySoon();
      });
    };
    // `checkContinue` must not get a listener, because Node would then neither send `100 Continue` nor emit `request`.
    for (const event of ['request', 'checkExpectation']) server.prependListener(event, begun);
  }

  /**
   * Replaces the certificate, its key and the client CA. If the client CA changes, connections that were authenticated by the
   * previous CA are closed, at once or after the response in progress. Connections whose handshake is not complete are closed too, because
   * they could still be authenticated by the previous CA.
   */
  renew(tls: ServerTls): void {
    const before = this.#tls;
    this.#tls = renewedTls(before, tls);
    if (this.#tls === before) return;
    this.#server.setSecureContext(secureContext(this.#tls));
    if (this.#tls.clientCa === before.clientCa) return;
    // A connection keeps the CA that was configured when the connection was opened.
    for (const socket of this.#handshaking.values()) socket.destroy();
    for (const [socket, responses] of this.#connections) {
      this.#retired.add(socket);
      const last = [...responses].at(-1);
      if (last === undefined) socket.destroy();
      // Without this, the client could send another request on the connection.
      else last.shouldKeepAlive = false;
    }
  }

  #watchHandshake(socket: Socket): void {
    const ends = formatEndpoints(socket);
    this.#handshaking.set(ends, socket);
    socket.once('close', () => {
      if (this.#handshaking.get(ends) === socket) this.#handshaking.delete(ends);
    });
  }
}
