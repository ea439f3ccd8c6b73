import type { Logger } from './logger.ts';
import type { ClosingReason, Metrics } from './metrics.ts';

/** For this many milliseconds, closings are combined into one log line, so that a flood does not fill the log. */
const lineInterval = 1_000;

/** Counts the connections that the sidecar closes and logs them, with at most one line per second for each reason. */
export class Closings {
  readonly #metrics: Pick<Metrics, 'connectionClosed'>;
  readonly #log: Logger;
  /** The number of connections closed since the last log lines, by reason. */
  readonly #sums = new Map<ClosingReason, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(metrics: Pick<Metrics, 'connectionClosed'>, log: Logger) {
    this.#metrics = metrics;
    this.#log = log;
  }

  count(reason: ClosingReason): void {
    this.#metrics.connectionClosed(reason);
    this.#sums.set(reason, (this.#sums.get(reason) ?? 0) + 1);
    this.#timer ??= setTimeout(() => this.flush(), lineInterval).unref();
  }

  /** Logs the closings that have been counted since the last log lines. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [reason, connections] of this.#sums) this.#log.warn({ reason, connections }, 'connections closed');
    this.#sums.clear();
  }
}
