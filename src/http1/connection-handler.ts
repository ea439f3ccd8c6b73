import type { ServerExchange } from './exchange.ts';
import type { HeadLimits } from './parse/request-reader.ts';
import type { SuspendReason } from './read-pace.ts';

/** The owner's side of one connection. An error that one of its methods throws goes to `onError` and closes the connection. */
export interface ConnectionHandler {
  /**
   * A request has begun. The exchange has no head if the bytes are not a request, or if no complete head has arrived within `headTimeout`:
   * then the owner sends a response, which ends the connection, or aborts the exchange. A fault in a body goes to the body's sink instead.
   */
  onRequest(exchange: ServerExchange): void;
  /**
   * The connection holds this many more bytes (fewer if negative): of an incomplete head, a body that is not being read, or pipelined
   * requests. It holds at most `maxHeadSize` bytes, or 16 KiB and one read of the socket.
   *
   * @returns false to close the connection instead
   */
  onHeld(change: number): boolean;
  /**
   * The client has sent much, or many small pieces, each of which costs as much as a long one, or must wait because others have. Nothing
   * more is read from the client until `resume` is called in a later turn.
   */
  onSuspend(resume: () => void, reason: SuspendReason): void;
  /** The client has sent hundreds of small TLS records at once, and more may follow from the same read. */
  onFlood?(): void;
  /** The client has caused too much work within TLS itself, and the connection closes. */
  onExcess(): void;
  /** The connection's TLS handshake has made keys, after many others in this turn: other clients must wait. */
  onCrowd?(): void;
  onError(error: unknown): void;
  /** Called once, after `onClose` of the open exchange. */
  onClose(): void;
}

/** Limits of connections, which may change while the listener runs. Times are in milliseconds. */
export interface ConnectionLimits extends HeadLimits {
  /** For the TLS handshake, then for the connection's first head; for a later head, counted from the first byte of that head. */
  readonly headTimeout: number;
  /** From a response to the next request. */
  readonly idleTimeout: number;
  /** How long the rest of a request is read and discarded after its response. */
  readonly lingerTimeout: number;
}
