import type { EpochMs } from '../times.ts';

const minuteLength = 60_000;

/** A sliding window of minutes, or of other slots of time: each has a slot, which is emptied when it is used again. */
export class MinuteRing {
  readonly #size: number;
  readonly #empty: (slot: number) => void;
  readonly #length: number;
  #slot = Number.NaN;

  /**
   * @param empty  called for each slot that a new one begins to use, or that was skipped
   * @param length of a slot, in milliseconds
   */
  constructor(size: number, empty: (slot: number) => void, length = minuteLength) {
    this.#size = size;
    this.#empty = empty;
    this.#length = length;
  }

  /**
   * The slot of the current time. A clock that is set back by less than a slot or two stays in its slot; one that is set
   * back further empties the window.
   */
  at(now: EpochMs): number {
    const slot = Math.floor(now / this.#length);
    const passed = slot - this.#slot;
    if (passed !== 0 && passed !== -1) this.#moveTo(slot, passed);
    return this.#slot % this.#size;
  }

  /** The start of the current slot. */
  get begin(): EpochMs {
    return this.#slot * this.#length;
  }

  #moveTo(slot: number, passed: number): void {
    const emptied = passed > 0 && passed < this.#size ? passed : this.#size;
    for (let i = 0; i < emptied; i++) this.#empty((slot - i) % this.#size);
    this.#slot = slot;
  }
}
