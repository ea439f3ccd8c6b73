import type { EpochMs } from '../times.ts';

const minuteLength = 60_000;

/**
 * A sliding window of minutes, or of other periods. Each period has a slot, which is emptied when another period begins to use the slot.
 */
export class MinuteRing {
  readonly #size: number;
  readonly #empty: (slot: number) => void;
  readonly #length: number;
  #slot = Number.NaN;

  /**
   * @param empty  called for each slot that a new period begins to use, and for each slot that was skipped
   * @param length the length of a period, in milliseconds
   */
  constructor(size: number, empty: (slot: number) => void, length = minuteLength) {
    this.#size = size;
    this.#empty = empty;
    this.#length = length;
  }

  /**
   * The slot of the current time. If the clock is set back into the previous period, the slot stays the same. If the clock is set back
   * further, the window is emptied.
   */
  at(now: EpochMs): number {
    const slot = Math.floor(now / this.#length);
    const passed = slot - this.#slot;
    if (passed !== 0 && passed !== -1) this.#moveTo(slot, passed);
    return this.#slot % this.#size;
  }

  /** The start of the current period. */
  get begin(): EpochMs {
    return this.#slot * this.#length;
  }

  #moveTo(slot: number, passed: number): void {
    const emptied = passed > 0 && passed < this.#size ? passed : this.#size;
    for (let i = 0; i < emptied; i++) this.#empty((slot - i) % this.#size);
    this.#slot = slot;
  }
}
