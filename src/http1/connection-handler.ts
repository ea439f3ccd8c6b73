import type { ServerExchange } from './exchange.ts';
import type { HeadLimits } from './parse/request-reader.ts';
import type { SuspendReason } from './read-pace.ts';

/** Handles the events of one connection. If one of its methods throws, the error goes to `onError` and the connection is closed. */
export interface ConnectionHandler {
  /**
   * A request has begun. The exchange has no head if the bytes are not a request, or if no complete head has arrived within `headTimeout`.
   * In that case, the handler must send a response, which ends the connection, or abort the exchange. A fault in a body is reported to the
   * body's sink instead.
   */
  onRequest(exchange: ServerExchange): void;
  /**
   * The connection holds this many more bytes (fewer if negative). Held bytes belong to an incomplete head, a body that is not being read,
   * or pipelined requests. At most `maxHeadSize` bytes of a head are held; of anything else, at most 16 KiB plus one read of the socket.
   *
   * @returns false to close the connection instead
   */
  onHeld(change: number): boolean;
  /**
   * The client must wait for its turn, for one of three reasons: it has sent a lot of data, it has sent many small pieces (each costs as
   * much as a long one), or other clients have caused too much work. Until `resume` is called in a later turn, the client is not read.
   */
  onSuspend(resume: () => void, reason: SuspendReason): void;
  /**
   * A small piece has arrived that is not the first one of a request. Hundreds of small TLS records may come from one read.
   *
   * @param nth how many small pieces the client has sent since its request began, or since it was last suspended
   */
  onSmallPiece?(nth: number): void;
  /** The client has caused too much work within TLS itself, and the connection closes. */
  onExcess(): void;
  /**
   * The client keeps OpenSSL busy until the end of the current read, or has derived or replaced keys in the same turn as many others.
   * Other clients must now wait.
   */
  onCrowd?(): void;
  onError(error: unknown): void;
  /** Called once, after `onClose` of the open exchange. */
  onClose(): void;
}

/** Limits of connections, which may change while the listener runs. Times are in milliseconds. */
export interface ConnectionLimits extends HeadLimits {
  /** The time for the TLS handshake, then for the connection's first head. For a later head, the time from the first byte of that head. */
  readonly headTimeout: number;
  /** The time that may pass between a response and the next request. */
  readonly idleTimeout: number;
  /** How long the rest of a request is read and discarded after the response. */
  readonly lingerTimeout: number;
}
