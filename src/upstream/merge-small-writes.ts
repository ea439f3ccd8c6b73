import type { Socket } from 'node:net';
import { maxSmallPieces, smallPiece, startReading, stopReading } from '../http1/reading.ts';

/**
 * Merges the small pieces of a client that are written to a socket in one turn of the event loop, and stops reading the client while it
 * should not write: TLS delivers thousands of records of one byte in a turn, and Node would keep each as a Buffer of its own.
 *
 * @param to what `client` is piped to afterwards. Its `write` never asks the pipe to wait: Node would pause the client, and may then start
 *   to read it although it is read already, which destroys it.
 */
export function mergeSmallWrites(client: Socket, to: Socket): void {
  const [write, end] = [to.write.bind(to), to.end.bind(to)];
  let small: Buffer[] = [];
  const writeNow = (bytes: Buffer): void => {
    if (!write(bytes)) stopReading(client);
  };
  const flush = (): void => {
    if (small.length === 0 || to.destroyed) return;
    const merged = Buffer.concat(small);
    small = [];
    startReading(client);
    writeNow(merged);
  };
  to.on('drain', () => startReading(client));
  Object.assign(to, {
    write: (piece: Buffer): boolean => {
      if (small.length === 0 && piece.length >= smallPiece) {
        writeNow(piece);
        return true;
      }
      if (small.length === 0) setImmediate(flush);
      small.push(piece);
      if (small.length >= maxSmallPieces) stopReading(client);
      return true;
    },
    end: () => {
      flush();
      return end();
    },
  });
}
