import type { Socket } from 'node:net';
import type { Queue } from '../http1/incoming.ts';
import { ReadPace, smallPiece, type PaceOwner } from '../http1/read-pace.ts';
import { startReading, stopReading } from '../http1/reading.ts';
import { WriteRoom } from '../http1/writing.ts';

/**
 * Paces two sockets that were piped to each other in this turn: neither fills the turns of the event loop, and neither is read while the
 * other takes nothing.
 *
 * @param onSuspend calls back when it is this client's turn among those that send much
 * @param reading where the upstream waits for its turn
 * @returns a function that stops reading the client until its turn
 */
export function paceCoupling(
  client: Socket,
  upstream: Socket,
  onSuspend: PaceOwner['onSuspend'],
  reading: Queue,
): () => void {
  paceOneWay(upstream, client, (resume) => void reading.add(resume));
  return paceOneWay(client, upstream, onSuspend);
}

/** The pipe alone would keep each TLS record of one byte as a Buffer of its own, thousands in a turn. */
function paceOneWay(from: Socket, to: Socket, onSuspend: PaceOwner['onSuspend']): () => void {
  const [write, end] = [to.write.bind(to), to.end.bind(to)];
  let small: Buffer[] = [];
  let isFull = false;
  const read = (): void => (isFull || pace.isSuspended ? stopReading : startReading)(from);
  const pace = new ReadPace({ onSuspend, onPace: read });
  const writeNow = (bytes: Buffer): void => {
    isFull = !room.count(write(bytes, room.done));
    if (isFull) read();
  };
  const flush = (): void => {
    if (small.length === 0 || to.destroyed) return;
    const merged = Buffer.concat(small);
    small = [];
    writeNow(merged);
  };
  const room = new WriteRoom(() => {
    isFull = false;
    read();
  });
  Object.assign(to, {
    // The pipe is never asked to wait: it would pause its source, and Node's own pausing knows nothing of ours.
    write: (piece: Buffer): boolean => {
      pace.count(piece.length);
      if (piece.length < smallPiece) {
        if (small.length === 0) setImmediate(flush);
        small.push(piece);
      } else {
        flush();
        writeNow(piece);
      }
      return true;
    },
    end: () => {
      flush();
      return end();
    },
  });
  return () => pace.suspend('heldUp');
}
