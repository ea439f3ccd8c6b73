import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** A limit of a listener's connections: beyond it, the oldest that is not kept is closed for a new one. */
export class ConnectionLimit {
  /** The connections that are not kept, oldest first, by the addresses of both ends. */
  readonly #evictable = new Map<string, Socket>();
  #size = 0;

  constructor(server: Server, limit: number) {
    server.on('connection', (socket: Socket) => {
      const ends = endsOf(socket);
      this.#size += 1;
      this.#evictable.set(ends, socket);
      socket.once('close', () => {
        this.#size -= 1;
        if (this.#evictable.get(ends) === socket) this.#evictable.delete(ends);
      });
      if (this.#size <= limit) return;
      // The new one itself, if all others are kept.
      const [evicted] = this.#evictable.values();
      evicted?.destroy();
    });
  }

  /** From now on a connection is not closed for a new one. @param socket of a request that came on it */
  keep(socket: Socket): void {
    this.#evictable.delete(endsOf(socket));
  }
}

/** The addresses of both ends of a connection. They identify it over TLS, where a request has another socket than its connection. */
export function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
