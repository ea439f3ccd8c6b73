import type { Turns } from './queues.ts';

/** Why a client waits: it has sent much, or many small pieces, or others have. */
type Why = 'bytes' | 'smallPieces' | 'heldUp';

/** The turn of a client to be read, among those that it waits with. */
export class ReadTurn {
  /** Whether it has come, and lasts until the client was read: of its own, or as one of those held up. */
  #kind: 'own' | 'batch' | undefined;
  #end: NodeJS.Immediate | undefined;
  #withdraw: (() => void) | undefined;

  /** As of `Reader`. */
  get isInBatch(): boolean {
    return this.#kind === 'batch';
  }

  /** Whether the client must be read before it may be held up. @param isBatchBroken as of `Reader` */
  protects(isBatchBroken: boolean): boolean {
    return this.#kind === 'own' || (this.#kind === 'batch' && !isBatchBroken);
  }

  /** @param resume has it read */
  await(turns: Turns, why: Why, resume: () => void): void {
    const start = (): void => {
      this.#kind = why === 'heldUp' ? 'batch' : 'own';
      clearImmediate(this.#end);
      // After the next poll.
      this.#end = setImmediate(() => (this.#kind = undefined));
      resume();
    };
    this.#withdraw = turns[why].add(start, why === 'heldUp' && this.isInBatch);
  }

  withdraw(): void {
    this.#withdraw?.();
  }
}
