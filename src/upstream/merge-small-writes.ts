import type { Socket } from 'node:net';
import { startReading, stopReading } from '../http1/reading.ts';

/** A piece below this many bytes costs as much to write as one of some kilobytes, and hundreds of bytes of memory while it waits. */
const smallPiece = 64;

/** Small pieces of one turn after which the client is not read before the next. */
const maxSmall = 100;

/**
 * Merges the small pieces of a client that are written to a socket in one turn of the event loop, and stops reading the client when it
 * should not write: TLS delivers thousands of records of one byte in a turn, and Node would keep each as a Buffer of its own.
 *
 * @param to what `client` is piped to afterwards
 */
export function mergeSmallWrites(client: Socket, to: Socket): void {
  const [write, end] = [to.write.bind(to), to.end.bind(to)];
  let small: Buffer[] = [];
  let isFull = false;
  const flush = (): void => {
    const merged = Buffer.concat(small);
    small = [];
    if (merged.length === 0 || to.destroyed) return;
    const hasRoom = write(merged);
    if (hasRoom && isFull) to.emit('drain');
    isFull = !hasRoom;
  };
  const add = (piece: Buffer): boolean => {
    if (small.length === 0 && piece.length >= smallPiece) {
      isFull = !write(piece);
    } else {
      if (small.length === 0) setImmediate(flush);
      small.push(piece);
      isFull ||= small.length >= maxSmall;
    }
    if (isFull) stopReading(client);
    return !isFull;
  };
  to.on('drain', () => {
    isFull = false;
    startReading(client);
  });
  const merging = {
    write: add,
    end: () => {
      flush();
      return end();
    },
  };
  Object.assign(to, merging);
}
