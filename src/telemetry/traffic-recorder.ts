import { isDeepStrictEqual } from 'node:util';
import type { Registry } from 'prom-client';
import type { EnvironmentName } from '../accounts/api-key.ts';
import { AccessLog, type AccessLine } from './access-log.ts';
import type { Logger } from './logger.ts';
import { Metrics } from './metrics.ts';
import { RecentTraffic, recentTrafficMetrics } from './recent-traffic.ts';
import type { RequestTrace, Tracing, TracingSettings } from './tracing.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

/** How often the log names the accounts with the most refusals, in milliseconds. */
const reportInterval = 600_000;

/** Facts about a request that its access line does not contain. */
interface ExtraFacts {
  /** Whether the request's envelope was opened. */
  readonly opened: boolean;
  /** The sidecar's own part of the time to the head of the response, in milliseconds; undefined if there is no response. */
  readonly overhead: number | undefined;
  /** Whether the request's body begins like an envelope although the account does not encrypt. */
  readonly unexpectedEnvelope: boolean;
  readonly trace: RequestTrace | undefined;
}

/** Records the outcome of merchants' requests: in the log, in the metrics, and in memory for the operators' API. */
export class TrafficRecorder {
  readonly metrics: Metrics;
  readonly recent: RecentTraffic;
  readonly #log: Logger;
  readonly #version: string;
  readonly #accessLog: AccessLog;
  readonly #clock: () => EpochMs;
  readonly #reports: NodeJS.Timeout;
  #tracing: Tracing | undefined;
  #tracingSettings: TracingSettings | undefined;

  /** @param version the sidecar's version */
  constructor(registry: Registry, log: Logger, clock: () => EpochMs, version: string) {
    this.#clock = clock;
    this.#log = log;
    this.#version = version;
    this.#accessLog = new AccessLog(log);
    this.metrics = new Metrics(registry);
    this.recent = new RecentTraffic(clock);
    recentTrafficMetrics(registry, this.recent);
    this.#reports = setInterval(() => this.recent.report(log), reportInterval).unref();
  }

  /** Records a completed request. */
  record(line: AccessLine, { opened, overhead, unexpectedEnvelope, trace }: ExtraFacts): void {
    const now = this.#clock();
    this.#accessLog.write(line, now);
    this.recent.add(line, opened, unexpectedEnvelope, now);
    trace?.end(line);
    this.metrics.request(line, overhead);
    if (unexpectedEnvelope) this.metrics.unexpectedEnvelope(line.environment ?? 'none');
  }

  /**
   * Records that an upstream has sent bytes that nobody asked for.
   *
   * @param isNew whether the upstream's connections were reused until now
   */
  unasked(environment: EnvironmentName, isNew: boolean): void {
    this.metrics.unasked(environment);
    if (isNew) {
      this.#log.error({ environment }, 'the upstream sent unsolicited bytes: no connection is reused for 60 s');
    }
  }

  /**
   * Begins the trace of a request, if traces are configured.
   *
   * @param isTrusted whether the request comes from a trusted proxy
   * @param startedAt when the request began
   */
  trace(
    { traceparent }: { readonly traceparent: string | undefined },
    isTrusted: () => boolean,
    startedAt: MonotonicMs,
  ): RequestTrace | undefined {
    return this.#tracing?.begin(traceparent, isTrusted(), startedAt, this.#clock());
  }

  /** Applies the tracing settings of a new configuration. */
  async configure({ tracing: settings }: { readonly tracing?: TracingSettings | undefined }): Promise<void> {
    if (isDeepStrictEqual(settings, this.#tracingSettings)) return;
    const before = this.#tracing;
    this.#tracingSettings = settings;
    this.#tracing = undefined;
    if (settings !== undefined) {
      // The module is loaded on demand, to save memory and time in a sidecar without traces.
      const { Tracing } = await import('./tracing.ts');
      if (this.#tracingSettings === settings) this.#tracing = new Tracing(settings, this.#version, this.#log);
    }
    await before?.close();
  }

  /** Stops the reports in the log, and delivers the remaining traces. */
  async stop(): Promise<void> {
    clearInterval(this.#reports);
    await this.#tracing?.close();
  }
}
