import type { Readable } from 'node:stream';
import type { Socket } from 'node:net';
import { ResponseParser, type ResponseEvents } from './response-parser.ts';

/** A request in the form it goes out in. */
export interface OutgoingRequest {
  readonly method: string;
  /** Request line, all headers and the empty line. */
  readonly head: string;
  readonly body: Buffer | Readable | undefined;
  /** Whether a streamed body goes out chunked; otherwise the head states its length. */
  readonly chunked: boolean;
}

/** What becomes of a request. After `onComplete` or `onBroken` nothing more is called. */
export interface RequestEvents extends ResponseEvents {
  /** @param cause an error's code, for the log */
  onBroken(cause: string): void;
}

/** Bodies up to this size go out in one write with their head, as one string. */
const inOneWrite = 16_384;

/** One connection to the upstream, for one request at a time. */
export class Connection {
  readonly socket: Socket;
  /** When it was last used, on `performance.now()`'s scale. */
  idleSince = 0;
  #events: RequestEvents | undefined;
  #parser: ResponseParser | undefined;
  readonly #onIdle: (connection: Connection) => void;
  #bodySent = true;
  #cause = 'ECONNCLOSED';

  /** @param onIdle called when it may carry another request; @param onClose when it is over */
  constructor(socket: Socket, onIdle: (connection: Connection) => void, onClose: (connection: Connection) => void) {
    this.socket = socket;
    this.#onIdle = onIdle;
    socket.setNoDelay(true);
    // The upstream has said that it sends no more; what it has not completed it never will.
    socket.on('end', () => socket.destroy());
    socket.on('error', (error: Error & { code?: string }) => (this.#cause = error.code ?? error.name));
    socket.on('close', () => {
      onClose(this);
      this.#finish()?.onBroken(this.#cause);
    });
  }

  /** Takes in what has come. @param bytes are somebody else's afterwards */
  receive(bytes: Buffer): void {
    const fault = this.#parser === undefined ? 'UNEXPECTED_DATA' : this.#parser.push(bytes);
    if (fault === undefined) return;
    this.#cause = fault;
    this.socket.destroy();
  }

  /** Sends a request; the connection must be idle. */
  send({ method, head, body, chunked }: OutgoingRequest, events: RequestEvents): void {
    this.#events = events;
    this.#parser = new ResponseParser(method, {
      onInformation: (status, headers) => events.onInformation(status, headers),
      onHead: (status, headers) => events.onHead(status, headers),
      onBody: (chunk) => events.onBody(chunk),
      onComplete: (reusable) => this.#onComplete(reusable),
    });
    const { socket } = this;
    if (body === undefined) {
      socket.write(head, 'latin1');
    } else if (!Buffer.isBuffer(body)) {
      socket.write(head, 'latin1');
      this.#bodySent = false;
      this.#stream(body, chunked);
    } else if (body.length <= inOneWrite) {
      socket.write(head + body.toString('latin1'), 'latin1');
    } else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(body);
      socket.uncork();
    }
  }

  /** Ends the connection in the middle of what it does; nobody is told. */
  abort(): void {
    this.#finish();
    this.socket.destroy();
  }

  #stream(body: Readable, chunked: boolean): void {
    const { socket } = this;
    body.on('data', (chunk: Buffer) => {
      if (chunked) {
        socket.cork();
        socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
        socket.write(chunk);
      }
      const room = chunked ? socket.write('\r\n', 'latin1') : socket.write(chunk);
      if (chunked) socket.uncork();
      if (!room) {
        body.pause();
        socket.once('drain', () => body.resume());
      }
    });
    body.once('end', () => {
      this.#bodySent = true;
      if (chunked && !socket.destroyed) socket.write('0\r\n\r\n', 'latin1');
    });
  }

  #onComplete(reusable: boolean): void {
    // A request that is not out in whole leaves the connection in the middle of it.
    const again = reusable && this.#bodySent && !this.socket.destroyed;
    const events = this.#finish();
    // A client that reads slowly may have held back what is complete now.
    this.socket.resume();
    if (again) this.#onIdle(this);
    else this.socket.destroy();
    events?.onComplete(again);
  }

  #finish(): RequestEvents | undefined {
    const events = this.#events;
    this.#events = undefined;
    this.#parser = undefined;
    return events;
  }
}
