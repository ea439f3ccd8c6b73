import type { Socket } from 'node:net';
import { isStreamed, type BodySink, type Call, type UpstreamCall } from './call.ts';
import { ResponseParser } from './response-parser.ts';

/** What connections tell the pool they belong to. */
export interface ConnectionOwner {
  /** The connection may carry another request. */
  onIdle(connection: Connection): void;
  onClosed(connection: Connection): void;
  /** A kept connection has closed before the first byte of the response, and the request may be sent once more. */
  onRepeatable(call: Call): void;
}

/** Bodies up to this size go out in one write with their head, as one string. */
const inOneWrite = 16_384;

/** One connection to the upstream, for one request at a time. */
export class Connection implements UpstreamCall, BodySink {
  readonly socket: Socket;
  /** When it became idle, and when it is to be given up if it still is; on `performance.now()`'s scale. */
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
    // The upstream has said that it sends no more; what it has not completed it never will.
    socket.on('end', () => socket.destroy());
    socket.on('error', (error: Error & { code?: string }) => (this.#cause = error.code ?? error.name));
    socket.on('drain', () => this.#onDrain());
    socket.on('close', () => this.#onClose());
  }

  /** For how many seconds of idleness the upstream says that it keeps the connection. */
  get keepAlive(): number | undefined {
    return this.#parser.keepAlive;
  }

  /** Takes in what has come. @param bytes may be overwritten afterwards */
  receive(bytes: Buffer): void {
    const call = this.#call;
    let outcome: ReturnType<ResponseParser['push']>;
    try {
      outcome = this.#parser.push(bytes);
    } catch (error) {
      // What a handler throws must not end up in the socket's event, where it would end the process.
      this.abort();
      call?.failHandling(error);
      return;
    }
    if (outcome === 'complete') {
      if (this.#call !== undefined) this.#complete(this.#call);
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
    } else if (body.length <= inOneWrite) {
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

  /** Ends the connection in the middle of what it does; nothing more is reported of it. */
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
    const wasKept = this.idleSince !== undefined;
    if (wasKept && !this.#parser.begun && call.isRepeatable) this.#owner.onRepeatable(call);
    else call.fail('upstream_unavailable', this.#cause);
  }

  #complete(call: Call): void {
    // A request that is not out in whole leaves the connection in the middle of it.
    const isSent = this.#bodySent && this.socket.writableLength === 0;
    this.#call = undefined;
    // A client that reads slowly may have held back what is complete now.
    this.socket.resume();
    if (this.#parser.reusable && isSent && !this.socket.destroyed) this.#owner.onIdle(this);
    else this.socket.destroy();
    call.complete();
  }
}
