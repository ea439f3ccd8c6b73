import type { SuspendReason } from '../../http1/read-pace.ts';
import type { HeldUp, Turns } from './queues.ts';

/** How long a connection counts as new, unless a request arrives. Milliseconds. */
const newFor = 1_000;

/** A client's turn to be read, among those that it waits with. */
export class ReadTurn {
  /** Set while it is the client's turn, until the client has been read: `own`, or the queue in which the client was held up. */
  #kind: 'own' | HeldUp | undefined;
  #end: NodeJS.Immediate | undefined;
  #withdraw: (() => void) | undefined;
  /** Whether the client has ever sent many small pieces. */
  #hasOffended = false;
  /** On `performance.now()`'s scale. */
  #newUntil = performance.now() + newFor;

  /** A request has arrived. */
  endNew(): void {
    this.#newUntil = 0;
  }

  /** As in `Reader`. */
  get batchOf(): HeldUp | undefined {
    return this.#kind === 'own' ? undefined : this.#kind;
  }

  /** Whether the client must be read from before it may be held up. @param broken as in `Reader` */
  protects(broken: HeldUp | undefined): boolean {
    return this.#kind !== undefined && this.#kind !== broken;
  }

  /**
   * A client that has sent many small pieces may do so again at each turn, and would break each batch that it is in: it gets a turn of its
   * own, among clients like it. New connections do not wait with those that strangers have opened in advance, nor do the latter wait for
   * ever newer ones.
   *
   * @param resume starts reading the client again
   */
  await(turns: Turns, reason: SuspendReason, resume: () => void): void {
    // The first time, the client goes before those that do so again and again.
    const isFirst = reason === 'smallPieces' && !this.#hasOffended;
    if (reason === 'smallPieces') this.#hasOffended = true;
    const isHeldUp = reason === 'heldUp' && !this.#hasOffended;
    const queue = performance.now() < this.#newUntil ? turns.heldUpNew : turns.heldUp;
    const start = (): void => {
      this.#kind = isHeldUp ? queue : 'own';
      clearImmediate(this.#end);
      // The turn lasts until after the next poll.
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
