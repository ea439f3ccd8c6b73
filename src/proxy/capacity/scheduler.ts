import type { Tier } from './budgets.ts';

/**
 * Spreads work over turns of the event loop, so that other requests are served in between. For work that clients can
 * request in any amount. The caller must bound the waiting work.
 */
export class TickQueue {
  readonly #perTick: number;
  readonly #waiting: (() => void)[] = [];
  #started = 0;
  #scheduled = false;
  /** Nothing starts before, on `performance.now()`'s scale. */
  #restUntil = 0;

  /** @param perTick pieces of work that start in one turn of the event loop */
  constructor(perTick: number) {
    this.#perTick = perTick;
  }

  /** Whether a piece of work may start in this turn, because none waits and there is room. If so, it is counted. */
  tryStart(): boolean {
    if (this.#waiting.length > 0 || this.#started >= this.#perTick) return false;
    this.#started += 1;
    this.#schedule();
    return true;
  }

  /** Runs a piece of work in a later turn, in the order of the calls. It must not throw. */
  add(work: () => void): void {
    this.#waiting.push(work);
    this.#schedule();
  }

  /** Resolves in a later turn, in the order of the calls. */
  next(): Promise<void> {
    return new Promise((resolve) => this.add(resolve));
  }

  /**
   * Starts nothing for a while. Connections are accepted one in a turn of the event loop, so that long work in every turn, even if
   * it is bounded, would keep new clients waiting.
   */
  rest(milliseconds: number): void {
    this.#restUntil = performance.now() + milliseconds;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const rest = this.#restUntil === 0 ? 0 : this.#restUntil - performance.now();
    if (rest > 0) setTimeout(this.#run, rest);
    else setImmediate(this.#run);
  }

  readonly #run = (): void => {
    if (this.#restUntil > performance.now()) {
      this.#scheduled = false;
      this.#schedule();
      return;
    }
    const ready = this.#waiting.splice(0, this.#perTick);
    this.#started = ready.length;
    this.#scheduled = false;
    // Also without waiting work, once: only a new turn resets the count.
    if (ready.length > 0) this.#schedule();
    for (const work of ready) work();
  };
}

/**
 * Requests of one tier that start in a turn. Eight refusals take about as long as one enveloped exchange, so that a flood of
 * requests without a secret key at most doubles the time of a turn.
 */
const perTick = 8;

/** Decides when requests start. Those with a secret key start at once; few others start in a turn of the event loop. */
export class RequestScheduler {
  // Public keys do not wait behind anonymous requests.
  readonly #queues = { anonymous: new TickQueue(perTick), public: new TickQueue(perTick) };

  /** Whether a request starts at once; if not, it must be added. */
  tryStart(tier: Tier): boolean {
    return tier === 'secret' || this.#queues[tier].tryStart();
  }

  /** Starts a request in a later turn. */
  add(tier: Exclude<Tier, 'secret'>, start: () => void): void {
    this.#queues[tier].add(start);
  }
}
