import type { SuspendReason } from '../../http1/read-pace.ts';
import type { HeldUp, Turns } from './queues.ts';

/** How long a connection counts as new, in milliseconds, unless a request arrives earlier. */
const newFor = 1_000;

/** A client's turn to be read, and its wait for that turn among other clients. */
export class ReadTurn {
  /**
   * The queue in which the client waited for its current turn: the `HeldUp` queue or, if it has itself sent a lot of data or many small
   * pieces, `own`. Undefined if it is not the client's turn.
   */
  #kind: 'own' | HeldUp | undefined;
  #end: NodeJS.Immediate | undefined;
  #withdraw: (() => void) | undefined;
  /** Whether the client has ever sent many small pieces. */
  #hasOffended = false;
  /** When the connection stops counting as new, by `performance.now()`. */
  #newUntil = performance.now() + newFor;

  /** Called when a request arrives. From then on, the connection no longer counts as new. */
  endNew(): void {
    this.#newUntil = 0;
  }

  /** See `Reader`. */
  get batchOf(): HeldUp | undefined {
    return this.#kind === 'own' ? undefined : this.#kind;
  }

  /** Whether the client must be read before it may be held up again. @param broken see `Reader` */
  protects(broken: HeldUp | undefined): boolean {
    return this.#kind !== undefined && this.#kind !== broken;
  }

  /**
   * Waits for the client's turn. A client that has sent many small pieces may do so again in every turn and would break every batch that it
   * is in, so such clients wait in a queue of their own. New connections have a separate queue too, so that they do not wait for idle
   * connections that an attacker has opened in advance, and idle connections do not wait for a steady stream of new ones.
   *
   * @param resume starts reading the client again
   */
  await(turns: Turns, reason: SuspendReason, resume: () => void): void {
    // A client that sends many small pieces for the first time goes before clients that have done so repeatedly.
    const isFirst = reason === 'smallPieces' && !this.#hasOffended;
    if (reason === 'smallPieces') this.#hasOffended = true;
    const isHeldUp = reason === 'heldUp' && !this.#hasOffended;
    const queue = performance.now() < this.#newUntil ? turns.heldUpNew : turns.heldUp;
    const start = (): void => {
      this.#kind = isHeldUp ? queue : 'own';
      clearImmediate(this.#end);
      // The turn ends when the event loop has polled once more.
      this.#end = setImmediate(() => (this.#kind = undefined));
      resume();
    };
    this.#withdraw = isHeldUp
      ? queue.add(start, this.batchOf !== undefined)
      : turns[reason === 'bytes' ? 'bytes' : 'smallPieces'].add(start, isFirst);
  }

  withdraw(): void {
    this.#withdraw?.();
  }
}
