import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

/** Node's parser calls `onIncoming` at the end of each head and returns the result to llhttp as the result of `on_headers_complete`. */
interface Parser {
  onIncoming: (req: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Returned to llhttp to stop the parser. llhttp stops at every result that it does not define. */
const stopParsing = -1;

/** The body of a request may come in this many pieces, and in one more for each 64 bytes. */
const freePieces = 256;
const bytesPerPiece = 64;

/** The body of a request comes in too many small pieces. The server emits it as a `clientError`. */
class SmallPieces extends Error {
  readonly code = 'SMALL_PIECES';
}

/**
 * Limits the work that one read from a client can cause in Node's parser. Node documents no way to stop the parser. `parser`, Node's listener
 * for `data` and `_dump` are internal, so test/proxy/pipelined.test.ts and test/operators/small-pieces.test.ts check that this works.
 *
 * - No further request is read once the server has destroyed the connection. Otherwise Node would parse all the bytes that it has read:
 *   64 KiB can hold thousands of requests, and Node keeps each of them with a response until the connection has closed.
 * - A body in too many small pieces, such as chunks of one byte, ends the connection. Node makes a call and an object for each piece, so
 *   100 clients could block the event loop for seconds and hold half a gigabyte.
 */
export function limitParser(server: Server): void {
  const watch = (socket: Socket & { parser?: Parser }): void => {
    const { parser } = socket;
    const [parse] = socket.listeners('data');
    if (parser === undefined || parse === undefined) return;
    const onIncoming = parser.onIncoming;
    parser.onIncoming = (req, shouldKeepAlive) => {
      if (socket.destroyed) return stopParsing;
      limitPieces(req);
      return onIncoming(req, shouldKeepAlive);
    };
    let isStopped = false;
    socket.off('data', parse as () => void);
    socket.on('data', (bytes) => {
      if (isStopped) return;
      try {
        parse.call(socket, bytes);
      } catch (error) {
        if (!(error instanceof SmallPieces)) throw error;
        isStopped = true;
        if (!server.emit('clientError', error, socket)) socket.destroy();
      }
    });
  };
  server.on('setSecureContext' in server ? 'secureConnection' : 'connection', watch);
}

/** Makes the parser stop, by an exception that it passes on, if the body of the request comes in too many small pieces. */
function limitPieces(req: IncomingMessage & { _dump?: () => void }): void {
  let left = freePieces;
  const push = req.push.bind(req);
  req.push = (piece: Buffer | null, encoding?: BufferEncoding): boolean => {
    left += (piece?.length ?? 0) / bytesPerPiece - 1;
    if (left < 0 && piece !== null) throw new SmallPieces('the body comes in too many small pieces');
    return push(piece, encoding);
  };
  // After the response, Node would discard the rest of the body without a call of `push`.
  req._dump = () => void req.resume();
}
