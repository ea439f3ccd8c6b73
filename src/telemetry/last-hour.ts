import type { RefusalCode } from '../errors.ts';
import { MinuteRing } from './minute-ring.ts';

/** The counts of one minute. */
export interface Minute {
  /** Its start, epoch milliseconds. */
  readonly time: number;
  readonly requests: number;
  /** Refusals by code, without zeros. */
  readonly refusals: ReadonlyMap<RefusalCode, number>;
  /** Envelopes that did not open, and bodies that are not envelopes. */
  readonly unopened: number;
}

const minutes = 60;

interface Counts {
  requests: number;
  readonly refusals: Map<RefusalCode, number>;
  unopened: number;
}

/** Counts requests, refusals and envelopes that did not open, by minute, over the last hour. */
export class LastHour {
  readonly #slots: Counts[] = Array.from({ length: minutes }, () => none());
  readonly #ring = new MinuteRing(minutes, (slot) => (this.#slots[slot] = none()));

  /** Counts one request. @param now epoch milliseconds */
  add(code: RefusalCode | undefined, unopened: boolean, now: number): void {
    const counts = this.#slots[this.#ring.at(now)];
    if (counts === undefined) return;
    counts.requests++;
    if (code !== undefined) counts.refusals.set(code, (counts.refusals.get(code) ?? 0) + 1);
    if (unopened) counts.unopened++;
  }

  /** The last sixty minutes, oldest first. The last one is incomplete. @param now epoch milliseconds */
  byMinute(now: number): readonly Minute[] {
    const current = this.#ring.at(now);
    return this.#slots.map((_, i) => {
      const { requests, refusals, unopened } = this.#slots[(current + 1 + i) % minutes] ?? none();
      const time = this.#ring.begin - (minutes - 1 - i) * 60_000;
      return { time, requests, refusals: new Map(refusals), unopened };
    });
  }
}

function none(): Counts {
  return { requests: 0, refusals: new Map(), unopened: 0 };
}
