import type { Server } from 'node:http';
import type { Socket } from 'node:net';

type Connections = Map<string, Socket>;

/**
 * Limits the number of a listener's connections. When a new connection exceeds the limit, closes the oldest one that is not kept (see
 * `keep`).
 */
export class ConnectionLimit {
  /** The connections that are not kept, oldest first, keyed by the addresses of both ends. */
  readonly #evictable: Connections = new Map();
  /** The kept connections of each owner. */
  readonly #kept = new Map<string, Connections>();
  /** Maximum number of kept connections per owner. There is always room for the same number of connections that are not kept. */
  readonly #share: number;
  #size = 0;

  constructor(server: Server, limit: number) {
    this.#share = Math.max(1, Math.floor(limit / 10));
    server.on('connection', (socket: Socket) => {
      const ends = formatEndpoints(socket);
      this.#size += 1;
      this.#evictable.set(ends, socket);
      socket.once('close', () => {
        this.#size -= 1;
        if (this.#evictable.get(ends) === socket) this.#evictable.delete(ends);
      });
      if (this.#size > limit) this.#evict();
    });
  }

  /**
   * Keeps a connection from being closed for a new one, unless its owner already keeps a tenth of the limit. Otherwise, one owner could
   * keep out all others.
   *
   * @param socket the socket of a request on the connection
   * @param owner if undefined, the connection is kept regardless of how many others are kept
   */
  keep(socket: Socket, owner?: string): void {
    const ends = formatEndpoints(socket);
    const connection = this.#evictable.get(ends);
    if (connection === undefined) return;
    if (owner !== undefined) {
      const own = this.#kept.get(owner) ?? new Map<string, Socket>();
      if (own.size >= this.#share) return;
      this.#kept.set(owner, own.set(ends, connection));
      connection.once('close', () => {
        if (own.get(ends) === connection) own.delete(ends);
        if (own.size === 0 && this.#kept.get(owner) === own) this.#kept.delete(owner);
      });
    }
    this.#evictable.delete(ends);
  }

  /**
   * Closes the oldest connection that is not kept. If few such connections are left, closes the oldest connection of the owner with the
   * most kept connections instead, so that a new connection has time to become a kept one.
   */
  #evict(): void {
    const [most] = [...this.#kept.values()].toSorted((a, b) => b.size - a.size);
    const from = most === undefined || most.size === 0 || this.#evictable.size > this.#share ? this.#evictable : most;
    const [oldest] = from;
    // Remove the connection from the map at once, because the next connection may arrive before this one has closed.
    from.delete(oldest?.[0] ?? '');
    oldest?.[1].destroy();
  }
}

/** The addresses of both ends. They identify a connection even with TLS, where a request's socket object is not the connection's. */
export function formatEndpoints({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
