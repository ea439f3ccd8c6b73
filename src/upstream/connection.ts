import type { Socket } from 'node:net';
import { isStreamed, type BodyWriter, type Call, type UpstreamCall } from './call.ts';
import type { Queue } from '../http1/incoming.ts';
import { ResponseReader } from '../http1/parse/response-reader.ts';
import { maxSingleWrite, WriteRoom } from '../http1/writing.ts';
import { PacedReading } from './paced-reading.ts';

/** Queues for owners that take turns. */
export interface OwnedQueues {
  of(owner: object): Queue;
}

/** The pool that connections belong to. */
export interface ConnectionOwner {
  /** The queues for connections that must wait before they are read again, because a lot of data has arrived on them. Owners take turns. */
  readonly reading: OwnedQueues;
  /**
   * Called when the response is complete. The connection may carry another request once its last request has been sent completely.
   *
   * @param keepAlive how many seconds the upstream keeps an idle connection, if the upstream says so
   */
  onIdle(connection: Connection, keepAlive: number | undefined): void;
  onClosed(connection: Connection): void;
  /** Called when a reused connection has closed before the first byte of the response to a retryable request arrived. */
  onRetryable(call: Call): void;
  /** Called when the upstream has sent bytes that nobody asked for. */
  onUnasked(): void;
}

/**
 * How many earlier requests of a connection are remembered. If a response arrives out of step, it belongs to one of the latest requests.
 */
const remembered = 32;

/** One connection to the upstream, for one request at a time. */
export class Connection implements UpstreamCall, BodyWriter {
  readonly socket: Socket;
  /** When the connection last became idle, by `performance.now()`. */
  idleSince = Infinity;
  /** When the connection will be closed if it is still idle, by the same clock. */
  idleUntil = Infinity;
  readonly #owner: ConnectionOwner;
  readonly #reader = new ResponseReader((id) => id !== this.#call?.id && this.#earlier.includes(id));
  /** The ids of the latest requests before the current one, in no particular order. */
  readonly #earlier: string[] = [];
  /** The owners of the requests in `#earlier`, at the same indexes. */
  readonly #owners: string[] = [];
  #sent = 0;
  #call: Call | undefined;
  #bodySent = true;
  readonly #room = new WriteRoom(() => this.#onRoom());
  readonly #reading: PacedReading;
  #cause = 'ECONNCLOSED';

  /** @param socket a connected socket */
  constructor(socket: Socket, owner: ConnectionOwner) {
    this.socket = socket;
    this.#owner = owner;
    this.#reading = new PacedReading(
      socket,
      (bytes) => this.#process(bytes),
      () => owner.reading.of(this.#call?.turnOwner ?? this),
    );
    socket.setNoDelay(true);
    // An upstream that has closed its side will not complete a response.
    socket.on('end', () => socket.destroy());
    socket.on('error', (error: Error & { code?: string }) => (this.#cause = error.code ?? error.name));
    socket.on('close', () => this.#onClose());
  }

  /**
   * Whether an earlier request of another owner had the same id. Clients choose ids, so a late response to the earlier request could be
   * taken for the response to this request.
   */
  isAmbiguousFor({ id, idIsNew, owner }: Call): boolean {
    const isOthers = (i: number): boolean => owner === '' || this.#owners[i] !== owner;
    return !idIsNew && this.#earlier.some((earlier, i) => earlier === id && isOthers(i));
  }

  /** @param bytes may be overwritten after the call */
  receive(bytes: Buffer): void {
    this.#reading.receive(bytes);
  }

  #process(bytes: Buffer): void {
    const outcome = this.#attempt(() => this.#reader.push(bytes));
    if (outcome === undefined) return;
    // A client may choose two ids that become equal when the upstream echoes them. Therefore, an earlier id in the response proves a fault
    // only if the id of this request was generated at random.
    const isEarlier = outcome === 'EARLIER_RESPONSE' && this.#call?.idIsNew === true;
    if (outcome === 'UNEXPECTED_DATA' || isEarlier || this.#reader.excess) this.#owner.onUnasked();
    if (outcome === 'end') {
      if (this.#call !== undefined) this.#onEnd(this.#call);
    } else if (outcome !== 'more') {
      this.#cause = outcome;
      this.socket.destroy();
    } else {
      this.#reading.count(bytes.length, this.#reader.lines);
    }
  }

  /** Sends a request; the connection must be idle. Never throws, because an error thrown in a socket's event would end the process. */
  send(call: Call): void {
    this.#call = call;
    call.connection = this;
    // A response must not wait because of earlier ones, which may have been another account's.
    this.#reading.restart();
    this.#attempt(() => this.#write(call));
  }

  #write(call: Call): void {
    const { socket } = this;
    const { head, body } = call;
    this.#reader.begin(call.method, call.handler);
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
    this.#reading.pause();
  }

  resume(): void {
    this.#reading.resume();
  }

  /** Closes the connection. The handler's methods are not called again. */
  abort(): void {
    this.#call = undefined;
    this.#reading.stop();
    this.#reader.stop();
    this.socket.destroy();
  }

  /** Sends a part of the streamed body. */
  write(chunk: Buffer, whenWritten?: () => void): boolean {
    const { socket } = this;
    const onWritten = (error?: Error | null): void => {
      whenWritten?.();
      this.#room.done(error);
    };
    if (this.#call?.chunked !== true) return this.#room.count(socket.write(chunk, onWritten));
    socket.cork();
    socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
    socket.write(chunk, onWritten);
    const hasRoom = socket.write('\r\n', 'latin1');
    socket.uncork();
    return this.#room.count(hasRoom);
  }

  /** Ends the streamed body. */
  end(): void {
    this.#bodySent = true;
    if (this.#call?.chunked === true) this.socket.write('0\r\n\r\n', 'latin1');
  }

  #onRoom(): void {
    const body = this.#call?.body;
    if (!this.#bodySent && isStreamed(body)) this.#attempt(() => body.resume());
  }

  /** Catches errors from handlers and bodies, because an error that reached the socket's event would end the process. */
  #attempt<T>(work: () => T): T | undefined {
    const call = this.#call;
    try {
      return work();
    } catch (error) {
      this.abort();
      call?.onError(error);
      return undefined;
    }
  }

  #onClose(): void {
    this.#reading.end();
    this.#owner.onClosed(this);
    const call = this.#call;
    this.#call = undefined;
    if (call === undefined) return;
    const isReused = this.idleSince !== Infinity;
    if (isReused && !this.#reader.hasStarted && call.isRetryable) this.#owner.onRetryable(call);
    else call.onFailure({ code: 'upstream_unavailable', cause: this.#cause });
  }

  #remember({ id, owner }: Call): void {
    const index = this.#sent++ % remembered;
    this.#earlier[index] = id;
    this.#owners[index] = owner;
  }

  #onEnd(call: Call): void {
    this.#call = undefined;
    if (call.id !== '') this.#remember(call);
    // The connection may be paused, because the client reads slowly.
    this.resume();
    const { reusable, keepAlive } = this.#reader;
    // In a later turn of the event loop, the owner checks whether the whole request has been sent.
    if (reusable && this.#bodySent && !this.socket.destroyed) this.#owner.onIdle(this, keepAlive);
    else this.socket.destroy();
    call.onEnd();
  }
}
