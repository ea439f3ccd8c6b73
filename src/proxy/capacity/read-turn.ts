import type { Turns } from './queues.ts';

/** Why a client waits: it has sent much, or many small pieces, or others have. */
type Why = 'bytes' | 'smallPieces' | 'heldUp';

/** The turn of a client to be read, among those that it waits with. */
export class ReadTurn {
  /** Whether it has come, and lasts until the client was read: of its own, or as one of those held up. */
  #kind: 'own' | 'batch' | undefined;
  #end: NodeJS.Immediate | undefined;
  #withdraw: (() => void) | undefined;
  /** Whether it has ever sent many small pieces. */
  #hasOffended = false;
  /** Whether it has not yet sent a request. */
  isNew = true;

  /** As of `Reader`. */
  get isInBatch(): boolean {
    return this.#kind === 'batch';
  }

  /** Whether the client must be read before it may be held up. @param isBatchBroken as of `Reader` */
  protects(isBatchBroken: boolean): boolean {
    return this.#kind === 'own' || (this.#kind === 'batch' && !isBatchBroken);
  }

  /**
   * Who has sent many small pieces may do it again at each turn, and would break each batch that it is in: it gets a turn of its own
   * among those. A new connection goes before those that strangers have opened in advance.
   *
   * @param resume has it read
   */
  await(turns: Turns, why: Why, resume: () => void): void {
    if (why === 'smallPieces') this.#hasOffended = true;
    const kind = why === 'heldUp' && !this.#hasOffended ? 'batch' : 'own';
    const start = (): void => {
      this.#kind = kind;
      clearImmediate(this.#end);
      // After the next poll.
      this.#end = setImmediate(() => (this.#kind = undefined));
      resume();
    };
    if (kind === 'own') {
      this.#withdraw = turns[why === 'bytes' ? why : 'smallPieces'].add(start);
    } else {
      this.#withdraw = turns.heldUp.add(start, this.isInBatch || this.isNew);
    }
  }

  withdraw(): void {
    this.#withdraw?.();
  }
}
