import type { Socket } from 'node:net';
import { startReading, stopReading } from './reading.ts';

/**
 * How many TLS handshakes are read at any time: the newest ones, and a batch of the others. A client may send a message of its handshake in
 * thousands of records, which take half a millisecond. Nothing reports these records, and all clients may send them at the same time.
 */
const alwaysRead = 64;
const readInBatch = 32;

/** Milliseconds from one batch to the next. */
const batchInterval = 5;

/**
 * Decides when the sockets of TLS handshakes are read that have begun and are not complete. If there are many, the newest are read at once
 * and the others in turns. None of them ends, because a client far away may need longer than it takes others to begin many handshakes.
 */
export class HandshakeReads {
  readonly #newest = new Set<Socket>();
  /** Those that are not read now, in the order of their turns. */
  readonly #paused = new Set<Socket>();
  /** Those whose turn it is. */
  readonly #batch = new Set<Socket>();
  /** Those that wait because other clients have caused too much work. */
  readonly #suspended = new WeakSet<Socket>();
  #timer: NodeJS.Timeout | undefined;

  /** Called when a handshake begins. */
  begin(socket: Socket): void {
    this.#newest.add(socket);
    const [oldest] = this.#newest;
    if (oldest === undefined || this.#newest.size <= alwaysRead) return;
    this.#newest.delete(oldest);
    this.#pause(oldest);
    this.#timer ??= setInterval(() => this.#nextBatch(), batchInterval).unref();
  }

  /** Called when a handshake is complete, or its client has left. */
  end(socket: Socket): void {
    this.#newest.delete(socket);
    this.#batch.delete(socket);
    if (this.#paused.delete(socket)) this.#read(socket);
  }

  /** Stops reading until `resume` is called. @returns false if the handshake is not in progress, or already suspended */
  suspend(socket: Socket): boolean {
    const isInProgress = this.#newest.has(socket) || this.#batch.has(socket) || this.#paused.has(socket);
    if (!isInProgress || this.#suspended.has(socket)) return false;
    this.#suspended.add(socket);
    // Small records may follow the end of the handshake at once, so reading stops now.
    stopReading(socket);
    return true;
  }

  resume(socket: Socket): void {
    this.#suspended.delete(socket);
    if (!this.#paused.has(socket)) this.#read(socket);
  }

  #read(socket: Socket): void {
    if (!this.#suspended.has(socket)) startReading(socket);
  }

  #pause(socket: Socket): void {
    stopReading(socket);
    this.#paused.add(socket);
  }

  #nextBatch(): void {
    for (const socket of this.#batch) this.#pause(socket);
    this.#batch.clear();
    for (const socket of this.#paused) {
      if (this.#batch.size === readInBatch) break;
      this.#paused.delete(socket);
      this.#batch.add(socket);
      this.#read(socket);
    }
    if (this.#batch.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
