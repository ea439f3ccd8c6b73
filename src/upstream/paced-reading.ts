import type { Socket } from 'node:net';
import { appended, nothing, type Queue } from '../http1/incoming.ts';
import { ReadPace, type PaceOwner } from '../http1/read-pace.ts';

/** Reading one chunk line takes as long as reading this many bytes. */
const bytesOfLine = 128;

/** Limits how fast responses on a connection to the upstream are read, and keeps the bytes that arrive while the socket is suspended. */
export class PacedReading implements PaceOwner {
  readonly #socket: Socket;
  readonly #process: (bytes: Buffer) => void;
  readonly #queue: () => Queue;
  readonly #pace = new ReadPace(this);
  #isPaused = false;
  /** The bytes that have arrived since the socket was suspended. */
  #held = nothing;
  #withdraw: (() => void) | undefined;

  /**
   * @param process called with the bytes that have arrived; must not throw. It calls `count` if the response goes on
   * @param queue the queue in which the connection waits to be read again
   */
  constructor(socket: Socket, process: (bytes: Buffer) => void, queue: () => Queue) {
    this.#socket = socket;
    this.#process = process;
    this.#queue = queue;
  }

  /** @param bytes may be overwritten after the call */
  receive(bytes: Buffer): void {
    // With TLS, records that were already read still arrive while the socket is suspended. They are joined, because there may be many.
    if (this.#pace.isSuspended) this.#held = appended(this.#held, bytes);
    else this.#process(bytes);
  }

  /** Counts what has been processed. @param lines the number of chunk lines among the bytes */
  count(bytes: number, lines: number): void {
    this.#pace.count(bytes, bytesOfLine * lines);
  }

  /** Forgets what has been read, because another request's response begins. */
  restart(): void {
    this.#pace.restart();
  }

  pause(): void {
    this.#isPaused = true;
    this.onPace();
  }

  resume(): void {
    this.#isPaused = false;
    this.onPace();
  }

  onSuspend(resume: () => void): void {
    this.#withdraw = this.#queue().add(resume);
  }

  onPace(): void {
    if (!this.#stops) this.#processHeld();
    if (this.#stops) this.#socket.pause();
    else this.#socket.resume();
  }

  /** Ends the wait for a turn and forgets the bytes that have not been processed. */
  stop(): void {
    this.#withdraw?.();
    this.#held = nothing;
  }

  /** Processes the bytes that are left, because the socket has closed. */
  end(): void {
    this.#withdraw?.();
    this.#pace.end();
    this.#processHeld();
  }

  get #stops(): boolean {
    return this.#isPaused || this.#pace.isSuspended;
  }

  #processHeld(): void {
    const held = this.#held;
    this.#held = nothing;
    if (held.length > 0) this.#process(held);
  }
}
