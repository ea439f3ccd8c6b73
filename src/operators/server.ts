import type { IncomingMessage, RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { OperatorsToken } from '../config/config.ts';
import { http } from '../http.ts';
import { CertificateTurns, certificateHandshakeTime } from '../http1/certificate-turns.ts';
import { whenHandshakeBegins } from '../http1/hello.ts';
import { nextTurn } from '../http1/incoming.ts';
import { oneInATurn } from '../proxy/capacity/queues.ts';
import { https, type OnHandshakeFailure } from '../tls.ts';
import { ownerInTurns } from './tokens.ts';
import type { UnparsedRequests } from './unparsed.ts';

/** Limits for clients that have not sent a token yet. Times are in milliseconds. */
export const limits = {
  maxHeaderSize: 8_192,
  handshakeTimeout: 5_000,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  // By default Node checks the two timeouts above only every 30 s.
  connectionsCheckingInterval: 1_000,
};

interface ServerOptions {
  readonly unparsed: UnparsedRequests;
  readonly tls: TlsOptions | undefined;
  /** Called for each client that is refused for its first TLS message. */
  readonly onHandshakeFailure: OnHandshakeFailure;
}

/**
 * Creates the server of the operators' listener.
 *
 * @param authenticate returns the token of a request; undefined if it has no valid one
 */
export function createServer(
  handle: RequestListener,
  authenticate: (req: IncomingMessage) => OperatorsToken | undefined,
  { unparsed, tls, onHandshakeFailure: failed }: ServerOptions,
): Server {
  const serve = oneInATurn(handle, (req) => ownerInTurns(authenticate(req)));
  const begin: RequestListener = (req, res) => {
    const before = unparsed.begin(res);
    if (req.socket.destroyed) return;
    if (res.socket !== null) serve(req, res);
    // The client may have the whole previous response before Node notices, so wait. If the connection is then closed, `res` gets no socket.
    else if (before?.writableEnded) before.once('finish', () => void (res.socket !== null && serve(req, res)));
    // Refuse pipelined requests, which would all be processed and held at once. No browser sends them.
    else req.socket.destroy();
  };
  const options = tls?.requestCert === true ? { ...limits, handshakeTimeout: certificateHandshakeTime } : limits;
  const server =
    tls === undefined ? http.createServer(options, begin) : https().createServer({ ...options, ...tls }, begin);
  if (tls !== undefined)
    checkHellos(server, tls.requestCert === true ? new CertificateTurns(server) : undefined, failed);
  // Expectations other than 100-continue may be ignored (RFC 9110 §10.1.1).
  return server.on('checkExpectation', begin);
}

/** Lets a TLS server of Node's check each client's first message before its handshake begins. */
function checkHellos(server: Server, turns: CertificateTurns | undefined, failed: OnHandshakeFailure): void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    const options = { hellos: nextTurn, turns, handshakes: nextTurn, failed };
    const refuse = whenHandshakeBegins(socket, options, () => {
      clearTimeout(overdue);
      for (const listener of listeners) listener.call(server, socket);
    });
    const overdue = setTimeout(() => refuse('timeout'), limits.handshakeTimeout).unref();
    socket.once('close', () => clearTimeout(overdue));
  });
}
