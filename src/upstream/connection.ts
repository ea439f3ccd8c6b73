import type { Socket } from 'node:net';
import { isStreamed, type BodySink, type Call, type UpstreamCall } from './call.ts';
import { ResponseParser } from './response-parser.ts';

/** The pool that connections belong to. */
export interface ConnectionOwner {
  /**
   * The connection may carry another request.
   *
   * @param keepAlive seconds for which the upstream keeps an idle connection, if it says so
   */
  onIdle(connection: Connection, keepAlive: number | undefined): void;
  onClosed(connection: Connection): void;
  /** A reused connection has closed before the first byte of the response to a retryable request. */
  onRetryable(call: Call): void;
}

/** Bodies up to this size go out in one write with their head, as one string. */
const maxSingleWrite = 16_384;

/** One connection to the upstream, for one request at a time. */
export class Connection implements UpstreamCall, BodySink {
  readonly socket: Socket;
  /** When it became idle, and when it is closed if it is still idle; on `performance.now()`'s scale. */
  idleSince: number | undefined;
  idleUntil = Infinity;
  readonly #owner: ConnectionOwner;
  readonly #parser = new ResponseParser();
  #call: Call | undefined;
  #bodySent = true;
  #cause = 'ECONNCLOSED';

  /** @param socket connected */
  constructor(socket: Socket, owner: ConnectionOwner) {
    this.socket = socket;
    this.#owner = owner;
    socket.setNoDelay(true);
    // An upstream that has closed its side will not complete a response.
    socket.on('end', () => socket.destroy());
    socket.on('error', (error: Error & { code?: string }) => (this.#cause = error.code ?? error.name));
    socket.on('drain', () => this.#onDrain());
    socket.on('close', () => this.#onClose());
  }

  /** @param bytes may be overwritten after the call */
  receive(bytes: Buffer): void {
    const call = this.#call;
    let outcome: ReturnType<ResponseParser['push']>;
    try {
      outcome = this.#parser.push(bytes);
    } catch (error) {
      // If a handler's error reached the socket's event, it would end the process.
      this.abort();
      call?.onError(error);
      return;
    }
    if (outcome === 'end') {
      if (this.#call !== undefined) this.#onEnd(this.#call);
    } else if (outcome !== 'more') {
      this.#cause = outcome;
      this.socket.destroy();
    }
  }

  /** Sends a request; the connection must be idle. */
  send(call: Call): void {
    this.#call = call;
    call.connection = this;
    const { socket } = this;
    const { head, body } = call;
    this.#parser.begin(call.method, call.handler);
    if (body === undefined) {
      socket.write(head, 'latin1');
    } else if (isStreamed(body)) {
      socket.write(head, 'latin1');
      this.#bodySent = false;
      body.start(this);
    } else if (body.length <= maxSingleWrite) {
      socket.write(head + body.toString('latin1'), 'latin1');
    } else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(body);
      socket.uncork();
    }
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  /** Closes the connection; the handler is not called any more. */
  abort(): void {
    this.#call = undefined;
    this.#parser.stop();
    this.socket.destroy();
  }

  /** Sends a part of the streamed body. */
  write(chunk: Buffer): boolean {
    const { socket } = this;
    if (this.#call?.chunked !== true) return socket.write(chunk);
    socket.cork();
    socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
    socket.write(chunk);
    const hasRoom = socket.write('\r\n', 'latin1');
    socket.uncork();
    return hasRoom;
  }

  /** The streamed body is complete. */
  end(): void {
    this.#bodySent = true;
    if (this.#call?.chunked === true) this.socket.write('0\r\n\r\n', 'latin1');
  }

  #onDrain(): void {
    if (!this.#bodySent && isStreamed(this.#call?.body)) this.#call.body.resume();
  }

  #onClose(): void {
    this.#owner.onClosed(this);
    const call = this.#call;
    this.#call = undefined;
    if (call === undefined) return;
    const isReused = this.idleSince !== undefined;
    if (isReused && !this.#parser.begun && call.isRetryable) this.#owner.onRetryable(call);
    else call.onFailure({ code: 'upstream_unavailable', cause: this.#cause });
  }

  #onEnd(call: Call): void {
    // If the request is not sent completely, the upstream would read the next one as its rest.
    const isSent = this.#bodySent && this.socket.writableLength === 0;
    this.#call = undefined;
    // It may be paused, because the client reads slowly.
    this.socket.resume();
    const { reusable, keepAlive } = this.#parser;
    if (reusable && isSent && !this.socket.destroyed) this.#owner.onIdle(this, keepAlive);
    else this.socket.destroy();
    call.onEnd();
  }
}
