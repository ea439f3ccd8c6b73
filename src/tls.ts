import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { SecureContextOptions, TlsOptions, TLSSocket } from 'node:tls';
import type { EpochMs } from './times.ts';

type Tls = typeof import('node:tls');
type Https = typeof import('node:https');

/**
 * Node's `node:tls`, loaded at the first call. Loading it parses the certificates of all public CAs, which takes 5 MB of memory and more
 * time than the rest of startup.
 */
export const tls = (): Tls => process.getBuiltinModule('node:tls');

/** Node's `node:https`, which loads `node:tls`. */
export const https = (): Https => process.getBuiltinModule('node:https');

/** The certificate and the key of a listener, and the CAs that must have issued its clients' certificates, in PEM. */
export interface ListenerTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string | undefined;
}

/** The TLS options of a listener: its certificate, and whether its clients must have one. */
export function listenerOptions(tls: ListenerTls): TlsOptions {
  const demands = tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  return { ...secureContext(tls), ...demands };
}

/**
 * The TLS settings of a listener after its configuration has changed. Returns `before` itself if nothing has to be replaced, because a
 * replacement ends the resumption of all TLS sessions. Whether client certificates are required does not change. Without `ca`, Node would
 * accept clients with certificates from any public CA, so a removed `clientCa` stays in effect until the restart that the log asks for.
 */
export function renewedTls(before: ListenerTls, { cert, key, clientCa = before.clientCa }: ListenerTls): ListenerTls {
  const renewed = { cert, key, clientCa: before.clientCa && clientCa };
  const isSame = cert === before.cert && key === before.key && renewed.clientCa === before.clientCa;
  return isSame ? before : renewed;
}

/**
 * The key exchange groups of a listener: the code of each (RFC 8446 §4.2.7) and OpenSSL's name for it. The client chooses among them.
 * OpenSSL's default includes P-384, P-521, X448 and finite fields, which take two to ten times as long, even if the client only repeats a
 * recorded first message.
 */
export const keyExchangeGroups: ReadonlyMap<number, string> = new Map([
  [0x11ec, 'X25519MLKEM768'],
  [0x001d, 'X25519'],
  [0x0017, 'P-256'],
]);

/**
 * The part of a listener's options that can be replaced while it runs. RSA key exchange is excluded because it has no forward secrecy.
 * Moreover, it uses the private key only when the client's second message arrives, and that message does not wait for a turn. ARIA
 * takes many times as long as the other ciphers, and the client may choose.
 */
export function secureContext({ cert, key, clientCa }: ListenerTls): SecureContextOptions {
  const ciphers = `${tls().DEFAULT_CIPHERS}:!kRSA:!ARIA`;
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    ca: clientCa,
    ciphers,
    ecdhCurve: [...keyExchangeGroups.values()].join(':'),
  };
}

/**
 * Why a handshake with a listener failed. `certificate_*`: the client's certificate is missing or not accepted. `unsupported`: the client
 * and the listener have no version, cipher or protocol in common. `refused_by_client`: for instance, the client does not accept the
 * listener's certificate. `not_tls`: for instance, the client sent plain HTTP.
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

/** @param address the client's address; undefined if it is no longer known */
export type OnHandshakeFailure = (fault: HandshakeFault, address: string | undefined) => void;

/** Matches the codes of OpenSSL's errors. Codes with `ALERT` are alerts from the client. */
const faultsByCode: readonly (readonly [RegExp, HandshakeFault])[] = [
  [/^ERR_TLS_HANDSHAKE_TIMEOUT$/, 'timeout'],
  [/_PEER_DID_NOT_RETURN_A_CERTIFICATE$/, 'certificate_missing'],
  [/_ALERT_/, 'refused_by_client'],
  [/_HTTPS?(?:_PROXY)?_REQUEST$|_WRONG_VERSION_NUMBER$/, 'not_tls'],
  [/_UNSUPPORTED_PROTOCOL$|_VERSION_TOO_LOW$|_NO_SHARED_|_NO_SUITABLE_|_NO_APPLICATION_PROTOCOL$/, 'unsupported'],
];

/**
 * Calls `failed` for each handshake that fails because of the client. Connections on which nothing arrives, such as a load balancer's
 * probes, are not counted.
 *
 * Also closes connections on which a client resumes a session after its certificate has expired. OpenSSL checks certificates only in full
 * handshakes, and each resumption prolongs the session.
 */
export function onHandshakeFailures(server: EventEmitter, failed: OnHandshakeFailure, clock: () => EpochMs): void {
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    const certificate = socket.isSessionReused() ? socket.getPeerX509Certificate() : undefined;
    if (certificate === undefined || certificate.validToDate.getTime() > clock()) return;
    failed('certificate_expired', socket.remoteAddress);
    socket.destroy();
  });
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
    // A TLS socket may have lost its address, and Node has no public API for the TCP connection below it. If `_parent` is missing, the
    // address is unknown and connections on which nothing arrives may be counted.
    const { _parent: connection } = socket as { readonly _parent?: Socket };
    if (connection?.bytesRead === 0) return;
    const fault = classifyFailure(error, socket);
    if (fault !== undefined) failed(fault, connection?.remoteAddress ?? socket.remoteAddress);
  });
}

/** The fault; undefined if the sidecar itself has closed the connection, or if Node reports the connection's end a second time. */
function classifyFailure(error: NodeJS.ErrnoException, socket: TLSSocket): HandshakeFault | undefined {
  const { code = '', syscall } = error;
  if (code === 'ECONNRESET' && syscall === undefined) {
    // Node closes the connection after a handshake with a certificate that Node does not accept.
    const rejection = socket.authorizationError as unknown as string | null;
    if (rejection === null) return undefined;
    return /^CERT_(?:HAS_EXPIRED|NOT_YET_VALID)$/.test(rejection) ? 'certificate_expired' : 'certificate_untrusted';
  }
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'client_left';
  const isRejected = (socket.authorizationError as unknown) !== null;
  return isRejected ? undefined : (faultsByCode.find(([form]) => form.test(code))?.[1] ?? 'other');
}
