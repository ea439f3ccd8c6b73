import type { Socket } from 'node:net';
import { isNamed, mayHaveBody, responseHead } from './parse/grammar.ts';
import type { Incoming } from './incoming.ts';
import type { PieceBuffers } from './piece-buffers.ts';
import type { BodySink, RequestFault, RequestHead } from './parse/request-reader.ts';
import { maxSingleWrite, WriteRoom } from './writing.ts';
import type { MonotonicMs } from '../times.ts';

/** `complete`: the kernel has the whole response. `client_left` or `aborted`: the client or this side closed the connection before that. */
export type ExchangeOutcome = 'complete' | 'client_left' | 'aborted';

/** Handles the events of an exchange. None of its methods is called after `onClose`. */
export interface ExchangeHandler {
  /** There is room again after `write` has returned false. */
  onDrain(): void;
  /** The deadline has passed, and has been unset. */
  onDeadline(): void;
  /** Called once: in a later turn or, if `complete`, possibly within `end` or `send`. After `handOver`, called once the socket closes. */
  onClose(outcome: ExchangeOutcome): void;
}

/** The part of a connection that its exchange uses. */
export interface ExchangeConnection {
  /** With TLS, the TLS socket. Handlers may read its addresses and certificates, but may use it otherwise only after `handOver`. */
  readonly socket: Socket;
  readonly isSecure: boolean;
  deadline: MonotonicMs;
  readonly owner: { readonly dateLine: string; readonly pieces: PieceBuffers };
  readonly incoming: Pick<Incoming, 'readBody' | 'pause' | 'resume'>;
  /** With TLS, called when the last bytes of a response have been sent. */
  readonly onSent: (error?: Error | null) => void;
  /** Called when the whole response has been written to the socket. */
  endResponse(exchange: ServerExchange): void;
  abort(reset: boolean): void;
  /** Called when more of the response may be written. */
  onRoom(exchange: ServerExchange): void;
  handOver(): Buffer;
}

const withoutOwner: ExchangeHandler = { onDrain() {}, onDeadline() {}, onClose() {} };

/** One request and its response. */
export class ServerExchange {
  /** Undefined if the bytes are not a request. */
  readonly head: RequestHead | undefined;
  readonly connection: ExchangeConnection;
  /** Must be set in `onRequest`. */
  handler: ExchangeHandler = withoutOwner;
  /** The body, if it is empty or came completely with the head. It is a view that is valid only during `onRequest`; copy it to keep it. */
  wholeBody: Buffer | undefined;
  /** The fault in the head, or in the part of the body that came with it. A request with a fault need not be processed. */
  readonly fault: RequestFault | undefined;
  /** The part of an ambiguous head that was read, for a hint about the mistake; otherwise empty. Characters are bytes. */
  readonly faulty: string;
  /** Whether the whole request has arrived. */
  bodyComplete: boolean;
  /** How many bytes of the body have arrived, excluding their framing. */
  received: number;
  /**
   * Whether the connection may carry further requests after this response. May be set to false before the response begins. If the response
   * ends before the request does, the rest of the body is read and discarded or, if `keepAlive` is false, the connection is closed.
   */
  keepAlive: boolean;
  /** The status of the response; undefined until the response has begun. */
  status: number | undefined;
  /** Whether the response has ended, so that nothing more can be written. */
  ended = false;
  closed = false;
  #sink: BodySink | undefined;
  /** The head of the response, until it is written together with the next piece. */
  #pending = '';
  /** How the client finds the end of the body. */
  #framing: 'none' | 'sized' | 'chunked' | 'closing' = 'none';
  /** Bytes of a sized body that have not been written yet. */
  #unwritten = 0;
  /** Created when a part of the response is written before the response ends. */
  #room: WriteRoom | undefined;

  constructor(connection: ExchangeConnection, head?: RequestHead, body?: Buffer, fault?: RequestFault, faulty = '') {
    this.connection = connection;
    this.head = head;
    this.fault = fault;
    this.faulty = faulty;
    this.keepAlive = head?.keepAlive === true;
    this.wholeBody = body;
    this.bodyComplete = body !== undefined;
    this.received = body?.length ?? 0;
  }

  /** The time at which `onDeadline` is called, possibly one sweep later. `Infinity` means never. */
  set deadline(deadline: MonotonicMs) {
    if (!this.closed) this.connection.deadline = deadline;
  }

  /**
   * Passes the body to `sink`, whose methods are not called before this method returns.
   *
   * @throws if the body is complete; a body that came with the head is in `wholeBody`
   */
  readBody(sink: BodySink): void {
    if (this.closed) return;
    if (this.bodyComplete) throw new Error('the body is complete');
    this.#sink = sink;
    this.connection.incoming.readBody();
  }

  /** A part of the body has arrived. */
  onBody(piece: Buffer): void {
    this.received += piece.length;
    this.#sink?.onData(piece);
  }

  /** The body is complete, or its bytes are not valid. */
  onBodyEnd(fault: RequestFault | undefined): void {
    const sink = this.#sink;
    if (fault === undefined) {
      this.bodyComplete = true;
      sink?.onEnd();
    } else {
      this.keepAlive = false;
      sink?.onFault(fault);
    }
  }

  /** Stops reading the body until `resume` is called. */
  pause(): void {
    if (!this.closed) this.connection.incoming.pause();
  }

  resume(): void {
    if (!this.closed) this.connection.incoming.resume();
  }

  /**
   * Sends an informational response other than 101. A 100 asks the client for the body (RFC 9110 §10.1.1). Has no effect on HTTP/1.0, or
   * after the response has begun.
   *
   * @throws if a field is not valid
   */
  sendInformation(status: number, fields: readonly string[]): void {
    if (this.closed || this.status !== undefined || this.head?.minor !== 1) return;
    this.connection.socket.write(responseHead(status, fields, ''), 'latin1');
  }

  /**
   * Begins the response. If `Content-Length` is among the fields, it is the length of the body. Otherwise the body is sent in chunks or, on
   * HTTP/1.0, ends with the connection. `Date` is added if it is missing. The head is written with the first piece or, at the latest, in
   * the next tick.
   *
   * @param fields flat list of names and values without `Connection` and `Transfer-Encoding`; characters are bytes
   * @throws before anything is written if a name or value is not valid
   */
  sendHead(status: number, fields: readonly string[]): void {
    if (this.closed) return;
    this.#prepare(status, fields);
    process.nextTick(() => {
      if (this.#pending !== '' && !this.closed) this.#put('', false);
    });
  }

  /**
   * Sends a whole response, in one write if it is small. `Content-Length` is added if it is missing.
   *
   * @param body characters of a string are bytes; ignored if the response has no body
   * @throws as `sendHead` does
   */
  send(status: number, fields: string[], body: string | Buffer): void {
    if (this.closed) return;
    if (this.mayHaveBody(status)) fields.push('Content-Length', String(body.length));
    this.#prepare(status, fields);
    this.end(body);
  }

  #prepare(status: number, fields: readonly string[]): void {
    if (this.status !== undefined) throw new Error('the response has begun');
    let isDated = false;
    let length: number | undefined;
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const name = fields[i] as string;
      if (isNamed(name, 'date')) {
        isDated = true;
      } else if (isNamed(name, 'content-length')) {
        // One digit more is allowed than in messages that are read, because sealing more than doubles the number of bytes.
        if (length !== undefined || !/^\d{1,16}$/.test(fields[i + 1] as string))
          throw new Error('invalid Content-Length');
        length = Number(fields[i + 1]);
      } else if (isNamed(name, 'connection') || isNamed(name, 'transfer-encoding')) {
        throw new Error(`${name} must not be set by the caller`);
      }
    }
    this.#frame(status, length);
    this.#pending = responseHead(status, fields, this.#lines(isDated));
    this.status = status;
  }

  /** Whether a response with this status has a body. A response to HEAD has none, even if the request's head was not valid. */
  mayHaveBody(status: number): boolean {
    return mayHaveBody(this.head?.method ?? this.faulty.slice(0, this.faulty.indexOf(' ')), status);
  }

  #frame(status: number, length: number | undefined): void {
    if (!this.mayHaveBody(status)) this.#framing = 'none';
    else if (length === undefined) this.#framing = this.head?.minor === 1 ? 'chunked' : 'closing';
    else this.#framing = 'sized';
    if (this.#framing === 'sized') this.#unwritten = length ?? 0;
    if (this.#framing === 'closing') this.keepAlive = false;
  }

  #lines(isDated: boolean): string {
    let lines = isDated ? '' : this.connection.owner.dateLine;
    if (!this.keepAlive) lines += '\r\nConnection: close';
    else if (this.head?.minor === 0) lines += '\r\nConnection: keep-alive';
    return this.#framing === 'chunked' ? `${lines}\r\nTransfer-Encoding: chunked` : lines;
  }

  /**
   * Writes a part of the body. Has no effect if the response has no body or has ended, or if the client has left.
   *
   * @param piece characters of a string are bytes; a buffer may be overwritten after the call
   * @returns false if no more should be written before `onDrain`
   * @throws if the body becomes longer than the stated length
   */
  write(piece: string | Buffer): boolean {
    if (this.closed || this.ended || piece.length === 0 || this.#framing === 'none') return true;
    this.#count(piece.length);
    return this.#put(piece, false);
  }

  /**
   * Ends the response. If the stated length is not reached, the exchange is aborted.
   *
   * @param last the last piece; see `write`
   */
  end(last: string | Buffer = ''): void {
    if (this.closed || this.ended) return;
    if (this.status === undefined) throw new Error('the response has not begun');
    const piece = this.#framing === 'none' ? '' : last;
    this.#count(piece.length);
    if (this.#unwritten > 0) {
      this.abort();
      return;
    }
    this.ended = true;
    this.#sink = undefined;
    this.#put(piece, true);
    this.connection.endResponse(this);
  }

  #count(length: number): void {
    if (this.#framing !== 'sized') return;
    if (length > this.#unwritten) throw new Error('the body is longer than its stated length');
    this.#unwritten -= length;
  }

  /** Writes the head, if it is pending, and a piece, which may be empty. */
  #put(piece: string | Buffer, isLast: boolean): boolean {
    const { socket, isSecure, onSent, owner } = this.connection;
    const isChunked = this.#framing === 'chunked';
    const isChunk = isChunked && piece.length > 0;
    const before = isChunk ? `${this.#pending}${piece.length.toString(16)}\r\n` : this.#pending;
    const after = `${isChunk ? '\r\n' : ''}${isChunked && isLast ? '0\r\n\r\n' : ''}`;
    this.#pending = '';
    const room = isLast ? undefined : (this.#room ??= new WriteRoom(() => this.connection.onRoom(this)));
    const callback = isLast && isSecure ? onSent : room?.done;
    if (typeof piece === 'string' || piece.length <= maxSingleWrite) {
      const text = typeof piece === 'string' ? piece : piece.toString('latin1');
      const hasRoom = socket.write(before + text + after, 'latin1', callback);
      return room?.count(hasRoom) ?? hasRoom;
    }
    const copy = owner.pieces.copy(piece);
    socket.cork();
    if (before !== '') socket.write(before, 'latin1');
    let hasRoom = socket.write(copy, (error) => {
      owner.pieces.release(copy);
      if (after === '') callback?.(error);
    });
    if (after !== '') hasRoom = socket.write(after, 'latin1', callback);
    socket.uncork();
    return room?.count(hasRoom) ?? hasRoom;
  }

  /**
   * Closes the connection so that a broken response cannot be taken for a complete one. On HTTP/1.0, a response may end with the
   * connection, so the connection is reset.
   */
  abort(): void {
    if (!this.closed) this.connection.abort(this.head?.minor === 0);
  }

  /**
   * Ends HTTP on the connection. From now on its socket, paused and half open, belongs to the caller. The listener still counts the
   * connection, and `closeAll` closes it.
   *
   * @returns the socket, and the bytes that have arrived after the request
   */
  handOver(): { readonly socket: Socket; readonly firstBytes: Buffer } {
    return { firstBytes: this.connection.handOver(), socket: this.connection.socket };
  }
}
