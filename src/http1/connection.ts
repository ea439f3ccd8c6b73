import type { Socket } from 'node:net';
import type { Linked } from '../linked-list.ts';
import type { ConnectionHandler, ConnectionLimits } from './connection-handler.ts';
import type { SuspendReason } from './read-pace.ts';
import { ServerExchange, type ExchangeConnection, type ExchangeOutcome } from './exchange.ts';
import { Incoming, type IncomingOwner, type Queue } from './incoming.ts';
import type { PieceBuffers } from './piece-buffers.ts';
import type { RequestFault, RequestHead } from './parse/request-reader.ts';
import type { MonotonicMs } from '../times.ts';

/** The part of the listener that its connections use. */
export interface ConnectionOwner {
  readonly limits: ConnectionLimits;
  /** Whether each response closes its connection. */
  readonly isClosing: boolean;
  /** The `Date` field, preceded by CRLF. */
  readonly dateLine: string;
  /** Buffers for pieces that are not written to the socket at once. */
  readonly pieces: PieceBuffers;
  /** Called when the connection has closed. */
  forget(connection: ServerConnection): void;
  /** Suspends the connection's handshake until its turn comes. */
  suspendHandshake(connection: ServerConnection): void;
  /** Called when another reader takes over the connection's socket. */
  release(connection: ServerConnection): void;
}

/** `rest`: the response has been sent, but the rest of its request is still arriving. `ending`: the last response has been sent. */
type State = 'handshake' | 'head' | 'exchange' | 'rest' | 'ending' | 'handed_over' | 'closed';

/**
 * One connection from a client, with one exchange at a time. The bytes after a request are not parsed until the response has been sent, and
 * nothing is parsed after a fault. The connection has one deadline at a time.
 */
export class ServerConnection implements ExchangeConnection, IncomingOwner, Linked<ServerConnection> {
  /** The neighbours in the listener's list of connections. */
  previous: ServerConnection | undefined;
  next: ServerConnection | undefined;

  socket: Socket;
  readonly isSecure: boolean;
  deadline: MonotonicMs;
  handler: ConnectionHandler | undefined;
  readonly owner: ConnectionOwner;
  readonly incoming = new Incoming(this);
  /** The queue in which the connection waits before it reads its next head; undefined if it need not wait. */
  waitsIn: Queue | undefined;
  #state: State;
  #exchange: ServerExchange | undefined;
  /** Whether no complete head has arrived yet. */
  #isNew = true;
  /** Whether this side has closed the connection, or is about to. */
  #endedHere = false;

  /** @param socket the accepted TCP socket, on which a TLS handshake may still follow */
  constructor(socket: Socket, isSecure: boolean, owner: ConnectionOwner) {
    this.socket = socket;
    this.isSecure = isSecure;
    this.owner = owner;
    this.#state = isSecure ? 'handshake' : 'head';
    this.deadline = performance.now() + owner.limits.headTimeout;
  }

  get limits(): ConnectionLimits {
    return this.owner.limits;
  }

  /** Whether the connection waits for a request and no byte of the request has arrived. */
  get isIdle(): boolean {
    return this.#state === 'head' && this.incoming.isEmpty;
  }

  secure(socket: Socket): void {
    if (this.#state !== 'handshake') return;
    this.socket = socket;
    this.#state = 'head';
    this.#wait(this.limits.headTimeout);
  }

  /** @param bytes may be overwritten after the call */
  receive(bytes: Buffer): void {
    try {
      this.incoming.receive(bytes);
    } catch (error) {
      this.fail(error);
    }
  }

  onSuspend(resume: () => void, reason: SuspendReason): void {
    this.handler?.onSuspend(resume, reason);
  }

  readonly onSmallPiece = (nth: number): void => this.handler?.onSmallPiece?.(nth);

  onHeadBegins(): void {
    if (!this.#isNew) this.#wait(this.limits.headTimeout);
  }

  onHead(head: RequestHead, whole: Buffer | undefined, fault: RequestFault | undefined): void {
    const exchange = new ServerExchange(this, head, whole, fault);
    if (this.owner.isClosing) exchange.keepAlive = false;
    this.#exchange = exchange;
    this.#isNew = false;
    this.#state = 'exchange';
    this.deadline = Infinity;
    this.handler?.onRequest(exchange);
    if (exchange.received > 0) exchange.wholeBody = undefined;
  }

  onFault(fault: RequestFault, text: string): void {
    const exchange = new ServerExchange(this, undefined, undefined, fault, text);
    this.#exchange = exchange;
    this.#state = 'exchange';
    this.#wait(this.limits.lingerTimeout);
    this.handler?.onRequest(exchange);
  }

  onBody(piece: Buffer): void {
    this.#exchange?.onBody(piece);
  }

  onBodyEnd(fault: RequestFault | undefined): void {
    if (this.#exchange !== undefined) this.#exchange.onBodyEnd(fault);
    else if (fault === undefined) this.#expectHead();
    else this.#end(true);
  }

  onHeld(change: number): boolean {
    return this.handler?.onHeld(change) ?? true;
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.fail(error);
    }
  }

  endResponse({ keepAlive, bodyComplete }: ServerExchange): void {
    if (!bodyComplete && keepAlive) this.incoming.readBody();
    else if (!bodyComplete) this.incoming.discard();
    if (this.isSecure) return;
    if (this.socket.writableLength === 0) this.#onSent();
    // This callback is called once everything that was written before it has been sent.
    else this.socket.write('', 'latin1', this.onSent);
  }

  readonly onSent = (error?: Error | null): void => {
    if (error === undefined || error === null) this.#guard(() => this.#onSent());
  };

  #onSent(): void {
    const exchange = this.#exchange;
    if (exchange === undefined || this.#state !== 'exchange' || this.socket.destroyed) return;
    this.#endExchange(exchange, 'complete');
    if (this.#state !== 'exchange') return;
    if (!exchange.keepAlive) return this.#end(!exchange.bodyComplete || !this.incoming.isEmpty);
    if (exchange.bodyComplete) return this.#expectHead();
    this.#state = 'rest';
    this.#wait(this.limits.lingerTimeout);
  }

  #endExchange(exchange: ServerExchange, outcome: ExchangeOutcome): void {
    this.#exchange = undefined;
    this.deadline = Infinity;
    exchange.closed = true;
    exchange.handler.onClose(outcome);
  }

  #expectHead(): void {
    if (this.owner.isClosing) {
      this.#end(!this.incoming.isEmpty);
      return;
    }
    this.#state = 'head';
    this.#wait(this.limits.idleTimeout);
    this.incoming.expectHead(this.waitsIn);
    this.waitsIn = undefined;
  }

  /**
   * Closes the connection after its last response. Closing a socket with unread bytes resets it, and the reset can overtake the response
   * (RFC 9112 §9.6). If the client may still send (`lingers`), only this side is closed, and further bytes are discarded for a while.
   */
  #end(lingers: boolean): void {
    this.#state = 'ending';
    this.#wait(this.limits.lingerTimeout);
    this.incoming.discard();
    if (lingers) this.socket.end();
    else this.socket.destroySoon();
  }

  /** Applies shorter timeouts to a connection that is waiting for a handshake or a request. */
  hasten(): void {
    if (this.#state !== 'handshake' && this.#state !== 'head') return;
    const { headTimeout, idleTimeout } = this.limits;
    const timeout = this.isIdle && !this.#isNew ? idleTimeout : headTimeout;
    this.deadline = Math.min(this.deadline, performance.now() + timeout);
  }

  #wait(milliseconds: number): void {
    this.deadline = performance.now() + milliseconds;
  }

  /** Called by the listener's sweep when the deadline has passed; never throws. */
  expire(): void {
    this.deadline = Infinity;
    this.#guard(() => this.#expire());
  }

  #expire(): void {
    const exchange = this.#exchange;
    if (this.#state === 'head' && (this.#isNew || !this.incoming.isEmpty)) {
      this.incoming.discard();
      this.onFault('timeout', '');
    } else if (this.#state === 'exchange' && exchange !== undefined) {
      exchange.handler.onDeadline();
      // If the bytes are not a request, the connection has only waited for the refusal to be sent, and that has taken too long.
      if (exchange.head === undefined && !exchange.closed) this.destroy();
    } else {
      this.destroy();
    }
  }

  onRoom(exchange: ServerExchange): void {
    if (!exchange.ended && !exchange.closed) this.#guard(() => exchange.handler.onDrain());
  }

  /** Called when the client has closed its side. */
  onClientEnd(): void {
    const exchange = this.#exchange;
    // A response that has been written, but not sent completely, may still reach the client.
    if (exchange?.ended === true) exchange.keepAlive = false;
    else if (this.#state !== 'handed_over') this.#close();
  }

  onSocketClose(): void {
    if (this.#state === 'closed') return;
    const outcome = this.#state === 'handed_over' ? 'complete' : this.#endedHere ? 'aborted' : 'client_left';
    this.#state = 'closed';
    this.owner.forget(this);
    this.incoming.discard();
    const exchange = this.#exchange;
    if (exchange !== undefined) this.#guard(() => this.#endExchange(exchange, outcome));
    this.#guard(() => this.handler?.onClose());
  }

  abort(reset: boolean): void {
    if (reset && !this.isSecure) this.socket.resetAndDestroy();
    this.destroy();
  }

  /**
   * Closes the connection after the response in progress or, if there is none, at once. A response that has already been written is still
   * delivered.
   */
  retire(): void {
    if (this.#state === 'exchange' && this.#exchange !== undefined) this.#exchange.keepAlive = false;
    else if (this.#state === 'rest') this.#end(true);
    else if (this.#state !== 'ending') this.destroy();
  }

  /** Closes a connection whose client has made OpenSSL work too much: in a later turn, because OpenSSL may be in the middle of a read. */
  exceed(): void {
    setImmediate(() => this.destroy());
    this.#guard(() => this.handler?.onExcess());
  }

  suspend(): void {
    if (this.#state === 'handshake') this.owner.suspendHandshake(this);
    else this.incoming.suspend();
  }

  destroy(): void {
    this.#endedHere = true;
    this.#close();
  }

  #close(): void {
    if (this.#state === 'closed') return;
    this.incoming.discard();
    this.socket.destroy();
  }

  /** Called when one of the handler's methods has thrown. */
  fail(error: unknown): void {
    this.destroy();
    this.handler?.onError(error);
  }

  handOver(): Buffer {
    this.#state = 'handed_over';
    this.deadline = Infinity;
    const held = this.incoming.take();
    this.owner.release(this);
    this.socket.pause();
    return held;
  }
}
