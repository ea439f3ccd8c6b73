import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TlsOptions, TLSSocket } from 'node:tls';

type Tls = typeof import('node:tls');
type Https = typeof import('node:https');

/**
 * Node's `node:tls`, loaded at the first call: loading it parses the certificates of all public CAs, which takes longer than the
 * rest of a start, and takes 5 MB.
 */
export const tls = (): Tls => process.getBuiltinModule('node:tls');

/** Node's `node:https`, which loads `node:tls`. */
export const https = (): Https => process.getBuiltinModule('node:https');

/** The certificate of a listener, and the CA that it demands of its clients; PEM texts. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/** The certificate of a listener, and its requirement for client certificates. */
export function listenerOptions(tls: ListenerTls): TlsOptions {
  const demands = tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  return { ...secureContext(tls), ...demands };
}

/**
 * The settings of a listener after a change of its configuration; `before` itself if there is nothing to replace: another context would end
 * the resumption of all TLS sessions. Whether certificates are demanded does not change. Without `ca` Node would accept clients of any
 * public CA: one that was removed stays until the restart that the log asks for.
 */
export function renewedTls(before: ListenerTls, { cert, key, clientCa = before.clientCa }: ListenerTls): ListenerTls {
  const renewed = { cert, key, clientCa: before.clientCa && clientCa };
  const isSame = cert === before.cert && key === before.key && renewed.clientCa === before.clientCa;
  return isSame ? before : renewed;
}

/**
 * The part of these options that can be replaced while the listener runs. Key exchange by RSA has no forward secrecy, and takes the private key
 * only when the client's second message arrives, which no turn delays.
 */
export function secureContext({ cert, key, clientCa }: ListenerTls): SecureContextOptions {
  return { cert, key, minVersion: 'TLSv1.2', ca: clientCa, ciphers: `${tls().DEFAULT_CIPHERS}:!kRSA` };
}

/**
 * Why a handshake of a listener failed. `certificate_*`: that of the client; `unsupported`: no version, cipher or protocol in common;
 * `refused_by_client`: the client does not accept the certificate of the listener, for instance; `not_tls`: plain HTTP, for instance.
 */
export const handshakeFaults = [
  'certificate_missing',
  'certificate_untrusted',
  'certificate_expired',
  'refused_by_client',
  'unsupported',
  'not_tls',
  'timeout',
  'client_left',
  'other',
] as const;

export type HandshakeFault = (typeof handshakeFaults)[number];

/** @param address of the client; undefined if it is not known any more */
export type OnHandshakeFailure = (fault: HandshakeFault, address: string | undefined) => void;

/** The codes of OpenSSL's errors. Those with `ALERT` are the client's. */
const faultsByCode: readonly (readonly [RegExp, HandshakeFault])[] = [
  [/^ERR_TLS_HANDSHAKE_TIMEOUT$/, 'timeout'],
  [/_PEER_DID_NOT_RETURN_A_CERTIFICATE$/, 'certificate_missing'],
  [/_ALERT_/, 'refused_by_client'],
  [/_HTTPS?(?:_PROXY)?_REQUEST$|_WRONG_VERSION_NUMBER$/, 'not_tls'],
  [/_UNSUPPORTED_PROTOCOL$|_VERSION_TOO_LOW$|_NO_SHARED_|_NO_SUITABLE_|_NO_APPLICATION_PROTOCOL$/, 'unsupported'],
];

/** Calls back for each handshake that fails by the client. Connections that send nothing, such as a load balancer's probes, do not count. */
export function onHandshakeFailures(server: EventEmitter, failed: OnHandshakeFailure): void {
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
    // Node has no public name for the connection under a socket whose own address is gone. Without it, only the address is lost.
    const { _parent: connection } = socket as { readonly _parent?: Socket };
    if (connection?.bytesRead === 0) return;
    const fault = classifyFailure(error, socket);
    if (fault !== undefined) failed(fault, connection?.remoteAddress ?? socket.remoteAddress);
  });
}

/** Undefined if the sidecar itself has closed the connection, or Node reports its end once more. */
function classifyFailure(error: NodeJS.ErrnoException, socket: TLSSocket): HandshakeFault | undefined {
  const { code = '', syscall } = error;
  if (code === 'ECONNRESET' && syscall === undefined) {
    // Node closes the connection after a handshake with a certificate that it does not accept.
    const rejection = socket.authorizationError as unknown as string | null;
    if (rejection === null) return undefined;
    return /^CERT_(?:HAS_EXPIRED|NOT_YET_VALID)$/.test(rejection) ? 'certificate_expired' : 'certificate_untrusted';
  }
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'client_left';
  const isRejected = (socket.authorizationError as unknown) !== null;
  return isRejected ? undefined : (faultsByCode.find(([form]) => form.test(code))?.[1] ?? 'other');
}
