import type { Socket } from 'node:net';

/** Bytes that a client may send between the head of its handshake and the 101. */
const maxEarlyBytes = 4_096;

/**
 * Reads a client's connection during its WebSocket handshake. Node reads nothing after the head, so a client that has left would
 * keep its slot until a timeout. A client must wait for the 101 (RFC 6455 §4.1): bytes that it sends earlier are kept until then,
 * and its connection is destroyed if they are too many.
 */
export class EarlyBytes {
  readonly #socket: Socket;
  #bytes = Buffer.alloc(0);

  /** @param first the bytes that have arrived with the head */
  constructor(socket: Socket, first: Buffer) {
    this.#socket = socket;
    this.#keep(first);
    // Like Node's server, which takes a client that has closed its side for one that has left.
    socket.on('data', this.#keep).on('end', this.#end);
  }

  /** Ends the reading. The next reader gets all bytes. */
  release(): void {
    this.#socket.off('data', this.#keep).off('end', this.#end).pause();
    if (this.#bytes.length > 0) this.#socket.unshift(this.#bytes);
  }

  // One buffer, because very small pieces would take more memory than their bytes.
  readonly #keep = (bytes: Buffer): void => {
    if (this.#bytes.length + bytes.length > maxEarlyBytes) this.#socket.destroy();
    else this.#bytes = Buffer.concat([this.#bytes, bytes]);
  };

  readonly #end = (): void => void this.#socket.end();
}
