import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { startReading, stopReading } from '../http1/reading.ts';
import { limitTlsWork } from '../http1/tls-work.ts';
import type { OperatorsToken } from '../config/config.ts';
import { connectionEvent } from '../parser-limits.ts';
import { FairTickQueue } from '../tick-queue.ts';
import { ownerInTurns } from './tokens.ts';

/**
 * Makes clients take turns to be read after one of them has caused too much work in a single read. Otherwise, every connected client could
 * cause that much work in the same turn of the event loop.
 */
export class ReadTurns {
  /** The owner of each client's token (see `ownerInTurns`). Owners take turns. */
  readonly #owners = new Map<Socket, string | undefined>();
  /** The clients that wait. The functions withdraw them. */
  readonly #held = new Map<Socket, () => void>();
  readonly #queue = new FairTickQueue<string>(1);

  constructor(server: Server) {
    const event = connectionEvent(server);
    server.on(event, (socket: Socket) => {
      this.#owners.set(socket, ownerInTurns(undefined));
      socket.once('close', () => {
        this.#owners.delete(socket);
        this.#held.get(socket)?.();
        this.#held.delete(socket);
      });
    });
    server.on('clientError', ({ code }: Error & { readonly code?: string }, socket: Socket) => {
      if (code === 'COSTLY_REQUEST') this.#holdUpOthers(socket);
    });
    if (event === 'connection') return;
    limitTlsWork(server, {
      exceeded: (socket) => {
        this.#holdUpOthers(socket);
        setImmediate(() => socket.destroy());
      },
    });
  }

  /** Called for each request with a valid token. */
  identify(socket: Socket, token: OperatorsToken): void {
    if (this.#owners.has(socket)) this.#owners.set(socket, ownerInTurns(token));
  }

  /** Makes all other clients wait until it is their turn to be read, except those whose requests begin at once. */
  #holdUpOthers(than: Socket): void {
    for (const [socket, owner] of this.#owners) {
      if (owner === undefined || socket === than || this.#held.has(socket)) continue;
      stopReading(socket);
      const withdraw = this.#queue.of(owner).add(() => {
        this.#held.delete(socket);
        startReading(socket);
      });
      this.#held.set(socket, withdraw);
    }
  }
}
