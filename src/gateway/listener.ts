import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TlsOptions } from 'node:tls';
import type { Config, ServerTls } from '../config/config.ts';
import type { RefusalCode } from '../errors.ts';
import { GatheringRequest, http, stopAtDestroyed } from '../http.ts';
import { https } from '../tls.ts';
import type { Gateway } from './gateway.ts';

/** The merchants' listener: Node's HTTP server with the configured limits, all of whose events go to the gateway. */
export function createListener({ listen, limits, timeouts }: Config, gateway: Gateway): Server {
  const options: ServerOptions<typeof GatheringRequest> = {
    IncomingMessage: GatheringRequest,
    maxHeaderSize: limits.header,
    headersTimeout: timeouts.header,
    // The gateway limits the time of a body: each pause of a streamed one, the total of an enveloped one.
    requestTimeout: 0,
    connectionsCheckingInterval: Math.min(1_000, Math.max(25, timeouts.header / 4)),
    keepAliveTimeout: timeouts.idle,
    // The guard refuses a missing Host, with a body and a request id.
    requireHostHeader: false,
    insecureHTTPParser: false,
    // A request without a body needs no stream.
    optimizeEmptyRequests: true,
    // An Upgrade that no route asks for is ignored (RFC 9110 §7.8): Java clients send h2c with every request.
    shouldUpgradeCallback: (req) => gateway.takesUpgrade(req),
  };
  const { tls } = listen;
  const server: Server =
    tls === undefined
      ? http.createServer(options)
      : https().createServer({ ...options, ...tlsOptionsOf(tls), handshakeTimeout: timeouts.header });
  // Node's own limit is 1,000 fields. With room for one more the gateway sees that there were too many.
  server.maxHeadersCount = limits.headers + 1;
  stopAtDestroyed(server);
  server.on('connection', (socket) => gateway.connections.open(socket, tls !== undefined));
  server.on('secureConnection', (socket: Socket) => gateway.connections.secure(socket));
  server.on('request', (req, res) => gateway.handle(req, res));
  // The gateway sends 100 Continue when it reads the body.
  server.on('checkContinue', (req, res) => gateway.handle(req, res));
  // Other expectations may be ignored (RFC 9110 §10.1.1).
  server.on('checkExpectation', (req, res) => gateway.handle(req, res));
  server.on('upgrade', (req, socket, firstBytes) => gateway.upgrade(req, socket as Socket, firstBytes));
  server.on('connect', (req, stream) => {
    // Node has removed its own error listeners. Without one, a reset would end the process. If a body is still
    // expected, the stream is not the socket, but listens for its errors.
    stream.on('error', () => {});
    gateway.refuseUnparsed(req.socket, 'ambiguous_request');
  });
  server.on('clientError', (error, socket) => {
    if (socket.destroyed) return;
    const code = parserRefusal(error);
    if (code === undefined) socket.destroy();
    else gateway.refuseUnparsed(socket as Socket, code);
  });
  return server;
}

/** The certificate of a listener, and its requirement for client certificates. */
export function tlsOptionsOf(tls: ServerTls): TlsOptions {
  const demands = tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  return { ...secureContextOf(tls), ...demands };
}

/** The part of these options that can be replaced while the listener runs. */
export function secureContextOf({ cert, key, clientCa }: ServerTls): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', ca: clientCa };
}

/** The refusal of bytes that Node's parser rejected; undefined if the client has left, or TLS failed. */
function parserRefusal({ code, reason }: Error & { code?: string; reason?: string }): RefusalCode | undefined {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 'headers_too_large';
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'request_timeout';
    case 'HPE_INVALID_EOF_STATE':
      return undefined;
    // The guard would refuse these too: bytes outside ASCII, other versions, other codings.
    case 'HPE_INVALID_URL':
    case 'HPE_PAUSED_H2_UPGRADE':
      return 'ambiguous_request';
    case 'HPE_INVALID_VERSION':
      return reason === 'Invalid HTTP version' ? 'ambiguous_request' : 'malformed_request';
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return reason?.includes('Content-Length') === true ? 'malformed_request' : 'ambiguous_request';
    default:
      return code?.startsWith('HPE_') === true ? 'malformed_request' : undefined;
  }
}
