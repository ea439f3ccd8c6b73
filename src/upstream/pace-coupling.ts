import type { Socket } from 'node:net';
import type { Queue } from '../http1/incoming.ts';
import { ReadPace, smallPiece, type PaceOwner } from '../http1/read-pace.ts';
import { startReading, stopReading } from '../http1/reading.ts';
import { WriteRoom } from '../http1/writing.ts';

/**
 * Paces two sockets that were piped to each other in this turn: neither fills the turns of the event loop, and the client is not read while
 * the upstream takes nothing. The pipe alone would keep each TLS record of one byte as a Buffer of its own, thousands in a turn.
 *
 * @param rest calls back when it is this client's turn among those that send much
 * @param reading where the upstream waits for its turn
 * @returns has the client rest
 */
export function paceCoupling(client: Socket, upstream: Socket, rest: PaceOwner['onRest'], reading: Queue): () => void {
  const [write, end] = [upstream.write.bind(upstream), upstream.end.bind(upstream)];
  let small: Buffer[] = [];
  let isFull = false;
  const readClient = (): void => (isFull || pace.rests ? stopReading : startReading)(client);
  const pace = new ReadPace({ onRest: rest, onPace: readClient });
  const writeNow = (bytes: Buffer): void => {
    isFull = !room.count(write(bytes, room.done));
    if (isFull) readClient();
  };
  const flush = (): void => {
    if (small.length === 0 || upstream.destroyed) return;
    const merged = Buffer.concat(small);
    small = [];
    writeNow(merged);
  };
  const room = new WriteRoom(() => {
    isFull = false;
    readClient();
  });
  Object.assign(upstream, {
    // The pipe is never asked to wait: it would pause the client, and Node's own pausing knows nothing of ours.
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
  const readUpstream = (): void => (upstreamPace.rests ? stopReading : startReading)(upstream);
  const upstreamPace = new ReadPace({ onRest: (resume) => void reading.add(resume), onPace: readUpstream });
  upstream.on('data', ({ length }: Buffer) => upstreamPace.count(length));
  return () => pace.rest(true);
}
