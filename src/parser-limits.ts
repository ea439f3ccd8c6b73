import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { endTls } from './http1/tls-work.ts';

/** Node's parser calls `onIncoming` at the end of each head and returns the result to llhttp as the result of `on_headers_complete`. */
interface Parser {
  onIncoming: (req: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Returned to llhttp to stop the parser. llhttp stops at every result that it does not define. */
const stopParsing = -1;

/** How many pieces of less than `shortPiece` bytes a head may come in, and a body. */
const mostShortPieces = 256;
const shortPiece = 64;

/**
 * How many bytes a connection may send, in reads, that are not part of a body: line ends, a head, and what frames and extends chunks. A
 * quarter of the body comes on top.
 */
const mostFraming = 65_536;

/** How many bytes of a body are discarded after the response, so that the connection can be kept. */
const mostDiscarded = 65_536;

/** A request takes more work than it may. The server emits this as a `clientError`. */
class CostlyRequest extends Error {
  readonly code = 'COSTLY_REQUEST';
}

/** Counts what a connection has sent since the latest request began. */
class Cost {
  #shortReads = mostShortPieces;
  #shortPieces = mostShortPieces;
  #framing = 0;
  #discarded = 0;
  isDiscarding = false;

  /** Counts bytes that have arrived. @throws CostlyRequest */
  addRead(length: number): void {
    this.#shortReads = left(this.#shortReads, length);
    if (this.#shortReads < 0 || this.#framing > mostFraming) throw new CostlyRequest();
    this.#framing += length;
  }

  /** Counts a piece of the body. @throws CostlyRequest */
  addPiece(length: number): void {
    this.#shortPieces = left(this.#shortPieces, length);
    this.#framing -= length * 1.25;
    if (this.isDiscarding) this.#discarded += length;
    if (this.#shortPieces < 0 || this.#discarded > mostDiscarded) throw new CostlyRequest();
  }
}

/** How many short pieces may still follow a piece of this length. */
function left(before: number, length: number): number {
  return Math.min(mostShortPieces, before + length / shortPiece - 1);
}

/** The event that a server emits for each connection from which it reads requests; with TLS, after the handshake. */
export function connectionEvent(server: Server): 'connection' | 'secureConnection' {
  return 'setSecureContext' in server ? 'secureConnection' : 'connection';
}

/**
 * Limits the work that a client can cause in Node's parser. Node documents no way to stop the parser. `parser`, Node's listener for `data`
 * and `_dump` are internal, so test/proxy/pipelined.test.ts and test/operators/small-pieces.test.ts check that this works.
 *
 * - No further request is read once the server has destroyed the connection. Otherwise Node would parse all the bytes that it has read:
 *   64 KiB can hold thousands of requests, and Node keeps each of them with a response until the connection has closed.
 * - A request in too many small pieces, such as chunks or TLS records of one byte, ends the connection. Node makes a call and an object for
 *   each piece, so 100 clients could block the event loop for seconds and hold half a gigabyte.
 * - So does a request with too many bytes that are not part of its body, or with a long body that goes on after its response.
 */
export function limitParser(server: Server): void {
  const watch = (socket: Socket & { parser?: Parser }): void => {
    const { parser } = socket;
    const [parse] = socket.listeners('data');
    if (parser === undefined || parse === undefined) return;
    let cost = new Cost();
    const onIncoming = parser.onIncoming;
    parser.onIncoming = (req, shouldKeepAlive) => {
      if (socket.destroyed) return stopParsing;
      cost = new Cost();
      countBody(req, cost);
      return onIncoming(req, shouldKeepAlive);
    };
    let isStopped = false;
    socket.off('data', parse as () => void);
    socket.on('data', (bytes) => {
      if (isStopped) return;
      try {
        cost.addRead(bytes.length);
        parse.call(socket, bytes);
      } catch (error) {
        if (!(error instanceof CostlyRequest)) throw error;
        isStopped = true;
        if (!server.emit('clientError', error, socket)) endTls(socket);
        // Nothing more is read, not even to discard it, because decrypting small records costs almost as much as parsing them.
        socket.pause().once('finish', () => endTls(socket));
      }
    });
  };
  server.on(connectionEvent(server), watch);
}

/** Counts the body of a request. If it costs too much, an exception makes the parser stop, which passes the exception on. */
function countBody(req: IncomingMessage & { _dump?: () => void }, cost: Cost): void {
  const push = req.push.bind(req);
  req.push = (piece: Buffer | null, encoding?: BufferEncoding): boolean => {
    if (piece !== null) cost.addPiece(piece.length);
    return push(piece, encoding);
  };
  // After the response, Node would discard the rest of the body without a call of `push`.
  req._dump = () => {
    cost.isDiscarding = true;
    req.resume();
  };
}
