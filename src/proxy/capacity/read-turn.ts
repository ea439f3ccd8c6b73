import type { HeldUp, Turns } from './queues.ts';

/** Why a client waits: it has sent much, or many small pieces, or others have. */
type Why = 'bytes' | 'smallPieces' | 'heldUp';

/** How long a connection counts as new, unless a request comes. Milliseconds. */
const newFor = 1_000;

/** The turn of a client to be read, among those that it waits with. */
export class ReadTurn {
  /** Whether it has come, and lasts until the client was read: of its own, or as one of those held up there. */
  #kind: 'own' | HeldUp | undefined;
  #end: NodeJS.Immediate | undefined;
  #withdraw: (() => void) | undefined;
  /** Whether it has ever sent many small pieces. */
  #hasOffended = false;
  /** On `performance.now()`'s scale. */
  #newUntil = performance.now() + newFor;

  /** A request has come. */
  endNew(): void {
    this.#newUntil = 0;
  }

  /** As of `Reader`. */
  get batchOf(): HeldUp | undefined {
    return this.#kind === 'own' ? undefined : this.#kind;
  }

  /** Whether the client must be read before it may be held up. @param broken as of `Reader` */
  protects(broken: HeldUp | undefined): boolean {
    return this.#kind !== undefined && this.#kind !== broken;
  }

  /**
   * Who has sent many small pieces may do it again at each turn, and would break each batch that it is in: it gets a turn of its own
   * among those. New connections do not wait with those that strangers have opened in advance, nor the latter for ever newer ones.
   *
   * @param resume has it read
   */
  await(turns: Turns, why: Why, resume: () => void): void {
    // The first time it goes before those that do it again and again.
    const isFirst = why === 'smallPieces' && !this.#hasOffended;
    if (why === 'smallPieces') this.#hasOffended = true;
    const isHeldUp = why === 'heldUp' && !this.#hasOffended;
    const queue = performance.now() < this.#newUntil ? turns.heldUpNew : turns.heldUp;
    const start = (): void => {
      this.#kind = isHeldUp ? queue : 'own';
      clearImmediate(this.#end);
      // After the next poll.
      this.#end = setImmediate(() => (this.#kind = undefined));
      resume();
    };
    this.#withdraw = isHeldUp
      ? queue.add(start, this.batchOf !== undefined)
      : turns[why === 'bytes' ? why : 'smallPieces'].add(start, isFirst);
  }

  withdraw(): void {
    this.#withdraw?.();
  }
}
