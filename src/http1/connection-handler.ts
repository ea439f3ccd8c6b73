import type { ServerExchange } from './exchange.ts';
import type { HeadLimits } from './parse/request-reader.ts';

/** The owner's side of one connection. An error that one of its methods throws goes to `onError` and closes the connection. */
export interface ConnectionHandler {
  /**
   * A request has begun. An exchange without a head is for bytes that are no request, or no whole head within `headTimeout`: the owner sends
   * a response, which ends the connection, or aborts it. A fault in a body goes to its sink instead.
   */
  onRequest(exchange: ServerExchange): void;
  /**
   * The connection holds this many bytes more, or fewer if negative: of an incomplete head, a body that is not being read, or
   * pipelined requests. It holds `maxHeadSize` bytes at most, or 16 KiB and one read of the socket.
   *
   * @returns false to close the connection instead
   */
  onHeld(change: number): boolean;
  /**
   * The client has sent much, or many small pieces, each of which costs as much as a long one. It is not read until `resume` is called, in
   * a later turn.
   */
  onRest(resume: () => void, hasSmallPieces: boolean): void;
  /** The client has sent hundreds of small TLS records at once, and more may follow from the same read. */
  onFlood?(): void;
  /** The client has sent too much to the TLS below, and the connection closes. */
  onExcess(): void;
  /** Its TLS handshake has made keys after many others in this turn: these must wait. */
  onCrowd?(): void;
  onError(error: unknown): void;
  /** Called once, after `onClose` of the open exchange. */
  onClose(): void;
}

/** Limits of connections, which may change while the listener runs. Times are in milliseconds. */
export interface ConnectionLimits extends HeadLimits {
  /** For the TLS handshake; for a connection's first head, from its opening; for a later one, from its first byte. */
  readonly headTimeout: number;
  /** From a response to the next request. */
  readonly idleTimeout: number;
  /** How long the rest of a request is read and discarded after its response. */
  readonly lingerTimeout: number;
}
