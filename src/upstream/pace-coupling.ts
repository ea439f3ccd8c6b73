import type { Socket } from 'node:net';
import type { Queue } from '../http1/incoming.ts';
import { ReadPace, smallPiece, type PaceOwner } from '../http1/read-pace.ts';
import { startReading, stopReading } from '../http1/reading.ts';
import { WriteRoom } from '../http1/writing.ts';

/**
 * Limits how fast two sockets that were piped together in this turn are read. Neither socket may fill the turns of the event loop, and
 * neither is read while the other cannot be written to.
 *
 * @param onSuspend calls back when it is this client's turn among clients that send a lot of data
 * @param reading the queue in which the upstream waits for its turn
 * @returns a function that suspends the client until its turn comes
 */
export function paceCoupling(
  client: Socket,
  upstream: Socket,
  onSuspend: PaceOwner['onSuspend'],
  reading: Queue,
): () => void {
  let withdraw: (() => void) | undefined;
  upstream.once('close', () => withdraw?.());
  paceOneWay(upstream, client, (resume) => (withdraw = reading.add(resume)));
  return paceOneWay(client, upstream, onSuspend);
}

/**
 * Paces one direction and joins small pieces. The pipe alone would keep each one-byte TLS record as a separate Buffer, thousands of them
 * per turn.
 */
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
    // Always returns true. Otherwise the pipe would pause its source, and Node's way of pausing would conflict with the one used here.
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
