import { Counter, type Registry } from 'prom-client';
import type { Logger } from './logger.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

/** Milliseconds between two checks of the clock. */
const interval = 1_000;

/** How many milliseconds the clock may go back without a report, because clocks are constantly corrected in small steps. */
const tolerance = 1_000;

/** Reports when the clock jumps back, because expired keys are then valid again and grace periods that had ended resume. */
export class ClockWatch {
  readonly #clock: () => EpochMs;
  readonly #monotonic: () => MonotonicMs;
  readonly #log: Logger;
  readonly #jumps: Counter;
  readonly #timer: NodeJS.Timeout;
  /** The most by which the clock has been ahead of the monotonic clock since the last jump, in milliseconds. */
  #lead: number;

  constructor(registry: Registry, log: Logger, clock: () => EpochMs, monotonic: () => MonotonicMs) {
    this.#clock = clock;
    this.#monotonic = monotonic;
    this.#log = log;
    this.#lead = clock() - monotonic();
    this.#jumps = new Counter({
      name: 'envelope_sidecar_clock_jumps_back_total',
      help: 'Number of times that the clock jumped back by more than a second.',
      registers: [registry],
    });
    this.#timer = setInterval(() => this.look(), interval).unref();
  }

  /** Compares the clock with the monotonic clock. */
  look(): void {
    const lead = this.#clock() - this.#monotonic();
    const back = this.#lead - lead;
    if (back <= tolerance) {
      this.#lead = Math.max(this.#lead, lead);
      return;
    }
    this.#lead = lead;
    this.#jumps.inc();
    this.#log.error(
      { seconds: Math.round(back / 1_000) },
      'the clock jumped back: expired keys and ended grace periods may be valid again',
    );
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
