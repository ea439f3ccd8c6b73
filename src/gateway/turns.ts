/**
 * Spreads work over turns of the event loop: however much is ready, other requests come between. For work that strangers can
 * ask for in any amount; what waits must be bounded by the caller.
 */
export class Turns {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];

  /** @param perTurn pieces of work that begin in a turn */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  /** Begins a piece of work in a later turn, in the order of the calls. It must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    if (this.#waiting.length === 1) setImmediate(this.#run);
  }

  /** Resolves when its turn has come. */
  next(): Promise<void> {
    return new Promise((resolve) => this.add(resolve));
  }

  readonly #run = (): void => {
    const ready = this.#waiting.splice(0, this.#perTurn);
    if (this.#waiting.length > 0) setImmediate(this.#run);
    for (const work of ready) work();
  };
}
