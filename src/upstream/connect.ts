import { connect as connectPlain, isIP, type LookupFunction, type OnReadOpts, type Socket } from 'node:net';
import type { ConnectionOptions, SecureContext, TLSSocket } from 'node:tls';
import type { UpstreamTarget } from '../config/config.ts';
import { SharedLookup } from './lookup.ts';
import { tls } from '../tls.ts';

/** The address of an upstream in the form that Node's clients expect. */
export interface UpstreamAddress extends UpstreamTarget {
  readonly protocol: 'http:' | 'https:';
  /** A host name or an IP address. An IPv6 address has no brackets. */
  readonly host: string;
  readonly port: number;
  /** The value of `Host`: the host, and the port if it is not the protocol's default. */
  readonly authority: string;
  /** Looks up `host` for all connections. */
  readonly lookups: SharedLookup;
  /** Undefined if the upstream does not use TLS. */
  readonly tls: SharedTls | undefined;
}

/** How long a TLS session may be resumed, in milliseconds. After that, the certificate is verified again. */
const sessionTime = 60_000;

/**
 * How long no session is resumed after an attempt has failed, in milliseconds. Some servers refuse to resume a session; others do not
 * respond.
 */
const resumptionPause = 600_000;

/** The context and the session that all TLS connections to an upstream share. */
export class SharedTls {
  readonly #target: UpstreamTarget;
  readonly #servername: string;
  #context: SecureContext | undefined;
  #session: Buffer | undefined;
  /** When the session becomes too old to resume, by `performance.now()`. */
  #sessionUntil = -Infinity;
  /** When sessions may be resumed again after a failed attempt, by the same clock. */
  #pausedUntil = -Infinity;

  /** @param host not used as the server name if it is an IP address (RFC 6066 §3) */
  constructor(target: UpstreamTarget, host: string) {
    this.#target = target;
    this.#servername = isIP(host) === 0 ? host : '';
  }

  /**
   * The session that the next connection may resume, if there is one. Resuming a session halves the time of a handshake, and clients can
   * cause many handshakes.
   */
  get session(): Buffer | undefined {
    const now = performance.now();
    return this.#pausedUntil <= now && now < this.#sessionUntil ? this.#session : undefined;
  }

  /** Options for a connection. The server name comes from the configuration, not from the `Host` that a client sent. */
  options(session?: Buffer): Pick<ConnectionOptions, 'servername' | 'secureContext' | 'session'> {
    const { ca, cert, key } = this.#target;
    // The context is created once, because reading a bundle of CAs takes milliseconds.
    this.#context ??= tls().createSecureContext({ ca, cert, key, minVersion: 'TLSv1.2' });
    return { servername: this.#servername, secureContext: this.#context, session };
  }

  /** Keeps the session of a connection, unless the connection itself resumed a session, because then the certificate was not verified. */
  follow(socket: TLSSocket): void {
    socket.on('session', (session: Buffer) => {
      if (socket.isSessionReused()) return;
      this.#session = session;
      this.#sessionUntil = performance.now() + sessionTime;
    });
  }

  /** Called when a connection that was to resume a session has failed. */
  pauseResumption(): void {
    this.#pausedUntil = performance.now() + resumptionPause;
  }
}

export function parseAddress(target: UpstreamTarget): UpstreamAddress {
  const { protocol, hostname, port, host: authority } = new URL(target.origin);
  const host = hostname.replace(/^\[|\]$/g, '');
  const isTls = protocol === 'https:';
  return {
    ...target,
    protocol: isTls ? 'https:' : 'http:',
    host,
    port: Number(port || (isTls ? 443 : 80)),
    authority,
    lookups: new SharedLookup(),
    tls: isTls ? new SharedTls(target, host) : undefined,
  };
}

/** Receives the outcome of an attempt to connect. Exactly one of the two methods is called, once. */
interface ConnectHandler {
  /** @returns a function that receives the bytes that arrive, which may be overwritten after the call */
  onConnected(socket: Socket): (bytes: Buffer) => void;
  /**
   * @param cause an error code, for the log; `ETIMEDOUT` on a timeout
   * @param resumed whether the attempt was to resume a TLS session, which the next attempt will not do
   */
  onConnectFailed(cause: string, resumed: boolean): void;
}

/**
 * Opens a connection to the upstream.
 *
 * @param timeout milliseconds for TCP and TLS together
 * @param buffer memory to read into; may be shared by all connections
 * @returns a function that ends the attempt, to be called only before the attempt has succeeded or failed
 */
export function connect(
  address: UpstreamAddress,
  timeout: number,
  buffer: Buffer,
  handler: ConnectHandler,
): () => void {
  let cause = 'ECONNCLOSED';
  let receive: ((bytes: Buffer) => void) | undefined;
  const { lookup, withdraw } = address.lookups.forOne();
  const session = address.tls?.session;
  let isAborted = false;
  const socket = open(address, lookup, session, {
    buffer,
    callback: (length, { buffer: memory, byteOffset }) => {
      receive?.(Buffer.from(memory, byteOffset, length));
      return true;
    },
  });
  const expire = (): void => {
    if (receive !== undefined) return;
    cause = 'ETIMEDOUT';
    socket.destroy();
  };
  // If the process was held up, a connection may have been established before the timeout. `setImmediate` lets Node report it first.
  const timer = setTimeout(() => void setImmediate(expire), timeout);
  const onError = (error: Error & { code?: string }): void => {
    cause = error.code ?? error.name;
  };
  const onClose = (): void => {
    clearTimeout(timer);
    const resumed = session !== undefined && !isAborted;
    if (resumed) address.tls?.pauseResumption();
    handler.onConnectFailed(cause, resumed);
  };
  socket.once('error', onError).once('close', onClose).once('close', withdraw);
  socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
    clearTimeout(timer);
    socket.off('error', onError).off('close', onClose);
    receive = handler.onConnected(socket);
  });
  return () => {
    isAborted = true;
    socket.destroy();
  };
}

function open(
  address: UpstreamAddress,
  lookup: LookupFunction,
  session: Buffer | undefined,
  onread: OnReadOpts,
): Socket {
  const { host, port, tls: shared, socketPath } = address;
  if (socketPath !== undefined) return connectPlain({ path: socketPath, onread });
  if (shared === undefined) return connectPlain({ host, port, lookup, onread });
  // Node accepts `onread` here too, although its types do not say so.
  const reading = { onread };
  const options = { ...reading, ...shared.options(session), host, port, lookup, ALPNProtocols: ['http/1.1'] };
  const socket = tls().connect(options);
  shared.follow(socket);
  return socket;
}

/** The outcome of an attempt to connect to an upstream. */
type Probe =
  /** `certificateEnds`: in epoch milliseconds; undefined if TLS is off. */
  | { readonly ok: true; readonly certificateEnds: number | undefined }
  /** `reason`: an error code. */
  | { readonly ok: false; readonly reason: string };

/**
 * Connects to an upstream, with TLS if it is configured, and disconnects without sending anything.
 *
 * @param timeout milliseconds for TCP and TLS together
 */
export function probe(target: UpstreamTarget, timeout: number): Promise<Probe> {
  return new Promise((resolve) => {
    connect(parseAddress(target), timeout, Buffer.alloc(1), {
      onConnected(socket) {
        const certificateEnds =
          'encrypted' in socket ? Date.parse((socket as TLSSocket).getPeerCertificate().valid_to) : undefined;
        socket.on('error', () => {}).destroy();
        resolve({ ok: true, certificateEnds });
        return () => {};
      },
      onConnectFailed(reason) {
        resolve({ ok: false, reason });
      },
    });
  });
}
