import type { Registry } from 'prom-client';
import { AccessLog, type AccessLine } from './access-log.ts';
import type { Logger } from './logger.ts';
import { Metrics } from './metrics.ts';
import { RecentTraffic, recentTrafficMetrics } from './recent-traffic.ts';

/** How often the log names the accounts with the most refusals. Milliseconds. */
const reportInterval = 600_000;

/** What is known of a request besides its access line. */
interface Unlogged {
  /** Whether its envelope was opened. */
  readonly opened: boolean;
  /** The sidecar's own part of the time to the head of the response, in milliseconds. */
  readonly overhead: number | undefined;
}

/** Takes down what merchants' requests came to: in the log, in the metrics, and in memory for operators who ask. */
export class TrafficRecorder {
  readonly metrics: Metrics;
  readonly recent: RecentTraffic;
  readonly #accessLog: AccessLog;
  readonly #clock: () => number;
  readonly #reports: NodeJS.Timeout;

  /**
   * @param clock    epoch milliseconds
   * @param inFlight asked at each scrape: the requests whose response is not complete
   */
  constructor(registry: Registry, log: Logger, clock: () => number, inFlight: () => number) {
    this.#clock = clock;
    this.#accessLog = new AccessLog(log);
    this.metrics = new Metrics(registry, inFlight);
    this.recent = new RecentTraffic(clock);
    recentTrafficMetrics(registry, this.recent);
    this.#reports = setInterval(() => this.recent.report(log), reportInterval).unref();
  }

  /** Takes down a request that is over. */
  record(line: AccessLine, { opened, overhead }: Unlogged): void {
    const { environment = 'none', route, method = '', status, code, credentials, upstream_ms, duration_ms = 0 } = line;
    const now = this.#clock();
    this.#accessLog.write(line, now);
    this.recent.add(line, opened, now);
    this.metrics.request(environment, route, method, status, duration_ms / 1_000);
    if (code !== undefined) this.metrics.refusal(environment, code);
    if (credentials !== undefined) this.metrics.grace(environment, credentials);
    if (upstream_ms !== undefined) this.metrics.upstream(environment, route, upstream_ms / 1_000);
    if (overhead !== undefined) this.metrics.overhead(environment, route, overhead / 1_000);
  }

  /** Ends the reports to the log. */
  stop(): void {
    clearInterval(this.#reports);
  }
}
