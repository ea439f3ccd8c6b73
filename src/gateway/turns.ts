/**
 * Spreads work over turns of the event loop, so that other requests are served in between. For work that clients can
 * request in any amount. The caller must bound the waiting work.
 */
export class Turns {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];

  /** @param perTurn pieces of work that begin in a turn */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Runs a piece of work in a later turn, in the order of the calls. It must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    if (this.#waiting.length === 1) setImmediate(this.#run);
  }

  /** Resolves in a later turn, in the order of the calls. */
  next(): Promise<void> {
    return new Promise((resolve) => this.add(resolve));
  }

  readonly #run = (): void => {
    const ready = this.#waiting.splice(0, this.#perTurn);
    if (this.#waiting.length > 0) setImmediate(this.#run);
    for (const work of ready) work();
  };
}
