const minuteLength = 60_000;

/** A sliding window of minutes: each minute has a slot, which is emptied when it is used again. */
export class MinuteRing {
  readonly #size: number;
  readonly #empty: (slot: number) => void;
  #minute = Number.NaN;

  /** @param empty called for each slot that a new minute begins to use, or that was skipped */
  constructor(size: number, empty: (slot: number) => void) {
    this.#size = size;
    this.#empty = empty;
  }

  /**
   * The slot of the current minute. A clock that is set back by less than a minute or two stays in its minute; one that is set
   * back further empties the window.
   *
   * @param now epoch milliseconds
   */
  at(now: number): number {
    const minute = Math.floor(now / minuteLength);
    const passed = minute - this.#minute;
    if (passed !== 0 && passed !== -1) this.#moveTo(minute, passed);
    return this.#minute % this.#size;
  }

  /** The start of the current minute, epoch milliseconds. */
  get begin(): number {
    return this.#minute * minuteLength;
  }

  #moveTo(minute: number, passed: number): void {
    const emptied = passed > 0 && passed < this.#size ? passed : this.#size;
    for (let i = 0; i < emptied; i++) this.#empty((minute - i) % this.#size);
    this.#minute = minute;
  }
}
