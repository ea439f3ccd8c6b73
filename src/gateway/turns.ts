/**
 * Lets pieces of work begin one in each turn of the event loop: however many are ready, other requests come between two of
 * them. For work that takes milliseconds and that strangers can ask for. Those that wait are bounded by their slots.
 */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves in a turn in which no other piece begins, in the order of the calls. */
  next(): Promise<void> {
    this.#last = this.#last.then(nextTurn);
    return this.#last;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
