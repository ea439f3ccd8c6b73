import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { startReading, stopReading } from '../http1/reading.ts';
import { limitTlsWork } from '../http1/tls-work.ts';
import { connectionEvent } from '../parser-limits.ts';
import { TickQueue } from '../tick-queue.ts';

/**
 * Lets clients be read in turns after one of them has caused too much work in a single read. Otherwise, as many clients as may connect
 * could each cause that work in the same turn of the event loop.
 */
export class ReadTurns {
  readonly #sockets = new Set<Socket>();
  /** The clients that wait. The functions withdraw them. */
  readonly #held = new Map<Socket, () => void>();
  readonly #trusted = new WeakSet<Socket>();
  readonly #queue = new TickQueue(1);

  constructor(server: Server) {
    const event = connectionEvent(server);
    server.on(event, (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#held.get(socket)?.();
        this.#held.delete(socket);
      });
    });
    server.on('clientError', ({ code }: Error & { readonly code?: string }, socket: Socket) => {
      if (code === 'COSTLY_REQUEST') this.#holdUpOthers(socket);
    });
    if (event === 'connection') return;
    limitTlsWork(server, (socket) => {
      this.#holdUpOthers(socket);
      setImmediate(() => socket.destroy());
    });
  }

  /** Called for a client that has sent a valid token. It does not wait any more. */
  trust(socket: Socket): void {
    this.#trusted.add(socket);
  }

  /** Makes all other clients without a valid token wait until it is their turn to be read. */
  #holdUpOthers(than: Socket): void {
    for (const socket of this.#sockets) {
      if (socket === than || this.#held.has(socket) || this.#trusted.has(socket)) continue;
      stopReading(socket);
      const withdraw = this.#queue.add(() => {
        this.#held.delete(socket);
        startReading(socket);
      });
      this.#held.set(socket, withdraw);
    }
  }
}
