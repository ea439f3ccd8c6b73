import type { Registry } from 'prom-client';
import type { EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import type { AccessLine } from './access-log.ts';
import { SeriesCounter, SeriesHistogram, type Count, type Distribution } from './series.ts';

/** A request's environment; `none` until its host is known. */
type EnvironmentLabel = EnvironmentName | 'none';

/** The series of one route in one environment, which are looked up only once. A series is undefined while it has no value. */
interface RouteSeries {
  readonly requests: Map<string, Map<number, Count>>;
  readonly seconds: Distribution;
  upstreamSeconds: Distribution | undefined;
  overheadSeconds: Distribution | undefined;
}

/** Why the sidecar closes the connection of a client that has not disconnected. */
const closingReasons = [
  'limit',
  'pipeline',
  'early_bytes',
  'timeout',
  'malformed',
  'revoked',
  'upstream',
  'error',
  'drain',
] as const;

export type ClosingReason = (typeof closingReasons)[number];

type Operation = 'open' | 'seal';
type Outcome = 'ok' | 'failed';

/** In seconds: from half a millisecond (the sidecar's own part) to the longest wait for an upstream. */
const requestBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** In seconds: tens of microseconds for most requests, milliseconds with a database look-up, up to a second if the look-up has to wait. */
const overheadBuckets = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const envelopeBuckets = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05];

const methodLabels = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * The metrics of the merchants' traffic. Every label has a closed set of values, so that no client can add series. The route is the
 * configured pattern, and a method outside the usual ones is `other`.
 */
export class Metrics {
  readonly #requests;
  readonly #requestSeconds;
  readonly #upstreamSeconds;
  readonly #overheadSeconds;
  readonly #refusals;
  readonly #reported;
  readonly #unexpectedEnvelopes;
  readonly #closedConnections;
  readonly #unasked;
  readonly #invalidKeys;
  readonly #overloaded;
  readonly #grace;
  readonly #envelopes;
  readonly #envelopeSeconds;
  readonly #secondsOf: Record<Operation, Distribution | undefined> = { open: undefined, seal: undefined };
  readonly #routes = new Map<EnvironmentLabel, Map<string, RouteSeries>>();

  constructor(registry: Registry) {
    this.#requests = new SeriesCounter(registry, {
      name: 'envelope_sidecar_requests_total',
      help: 'Requests, by the status of their response. Status 499: the client disconnected first; 444: the sidecar closed the connection before a response.',
      labelNames: ['environment', 'route', 'method', 'status'],
    });
    this.#requestSeconds = new SeriesHistogram(registry, {
      name: 'envelope_sidecar_request_duration_seconds',
      help: 'From the request head to the last byte of the response.',
      labelNames: ['environment', 'route'],
      buckets: requestBuckets,
    });
    this.#upstreamSeconds = new SeriesHistogram(registry, {
      name: 'envelope_sidecar_upstream_duration_seconds',
      help: 'From handing the request to the upstream to the last byte of its response.',
      labelNames: ['environment', 'route'],
      buckets: requestBuckets,
    });
    this.#overheadSeconds = new SeriesHistogram(registry, {
      name: 'envelope_sidecar_overhead_duration_seconds',
      help: "The sidecar's own part of the time to the head of the response: without waiting for the client's body or the upstream.",
      labelNames: ['environment', 'route'],
      buckets: overheadBuckets,
    });
    this.#refusals = new SeriesCounter(registry, {
      name: 'envelope_sidecar_refusals_total',
      help: 'Requests that the sidecar refused, by code.',
      labelNames: ['environment', 'code'],
    });
    this.#reported = new SeriesCounter(registry, {
      name: 'envelope_sidecar_reported_total',
      help: 'Requests that were forwarded although a rule would refuse them, by the code of the refusal that is only reported.',
      labelNames: ['environment', 'code'],
    });
    this.#unexpectedEnvelopes = new SeriesCounter(registry, {
      name: 'envelope_sidecar_unexpected_envelopes_total',
      help: 'Bodies on enveloped routes that begin like an envelope, of accounts that do not encrypt. They are forwarded unchanged.',
      labelNames: ['environment'],
    });
    this.#closedConnections = new SeriesCounter(registry, {
      name: 'envelope_sidecar_connections_closed_total',
      help: 'Client connections that the sidecar closed, by reason.',
      labelNames: ['reason'],
    });
    // All reasons are exposed from startup on, because `increase()` needs a value from before the first closing.
    for (const reason of closingReasons) this.#closedConnections.at(reason);
    this.#unasked = new SeriesCounter(registry, {
      name: 'envelope_sidecar_upstream_unasked_total',
      help: 'Number of times that the upstream sent unsolicited bytes. Its connections are then not reused for a minute.',
      labelNames: ['environment'],
    });
    this.#invalidKeys = new SeriesCounter(registry, {
      name: 'envelope_sidecar_invalid_keys_total',
      help: 'Requests refused as invalid_api_key, by the reason: unknown, revoked or expired.',
      labelNames: ['environment', 'reason'],
    });
    this.#overloaded = new SeriesCounter(registry, {
      name: 'envelope_sidecar_overloaded_total',
      help: 'Requests refused as overloaded, by the share that was used up: total, anonymous, public, test or account.',
      labelNames: ['environment', 'reason'],
    });
    this.#grace = new SeriesCounter(registry, {
      name: 'envelope_sidecar_grace_requests_total',
      help: 'Requests during a grace period, by credentials: current, which will still work after it; previous, or none (plaintext), which will then be refused.',
      labelNames: ['environment', 'credentials'],
    });
    this.#envelopes = envelopeCounts(registry);
    this.#envelopeSeconds = new SeriesHistogram(registry, {
      name: 'envelope_sidecar_envelope_duration_seconds',
      help: 'Time spent opening or sealing one envelope.',
      labelNames: ['operation'],
      buckets: envelopeBuckets,
    });
  }

  /**
   * Records a completed request.
   *
   * @param overhead the sidecar's own part of the time to the head of the response, in milliseconds; undefined if there is no response
   */
  request(line: AccessLine, overhead: number | undefined): void {
    const { environment = 'none', route, status, code, duration_ms = 0, upstream_ms } = line;
    const method = line.method !== undefined && methodLabels.has(line.method) ? line.method : 'other';
    const series = this.#routes.get(environment)?.get(route) ?? this.#addRoute(environment, route);
    const count =
      series.requests.get(method)?.get(status) ?? this.#addRequests(series, environment, route, method, status);
    count.value++;
    series.seconds.observe(duration_ms / 1_000);
    if (upstream_ms !== undefined) {
      series.upstreamSeconds ??= this.#upstreamSeconds.at(environment, route);
      series.upstreamSeconds.observe(upstream_ms / 1_000);
    }
    if (overhead !== undefined) {
      series.overheadSeconds ??= this.#overheadSeconds.at(environment, route);
      series.overheadSeconds.observe(overhead / 1_000);
    }
    if (code === undefined) return;
    this.#refusals.count(environment, code);
    if (line.reason === undefined) return;
    if (code === 'invalid_api_key') this.#invalidKeys.count(environment, line.reason);
    else if (code === 'overloaded') this.#overloaded.count(environment, line.reason);
  }

  /** Counts a refusal that was only reported, not enforced. */
  reported(environment: EnvironmentName, code: RefusalCode): void {
    this.#reported.count(environment, code);
  }

  /** Counts a request that was served during a grace period. @param credentials which credentials sealed the response */
  graceRequest(environment: EnvironmentName, credentials: 'current' | 'previous' | 'none'): void {
    this.#grace.count(environment, credentials);
  }

  /** Counts an envelope from an account that does not encrypt. */
  unexpectedEnvelope(environment: EnvironmentLabel): void {
    this.#unexpectedEnvelopes.count(environment);
  }

  /** Counts one case of an upstream sending bytes that nobody asked for. */
  unasked(environment: EnvironmentName): void {
    this.#unasked.count(environment);
  }

  /** Counts a client's connection that the sidecar has closed. */
  connectionClosed(reason: ClosingReason): void {
    this.#closedConnections.count(reason);
  }

  envelope(environment: EnvironmentName, operation: Operation, outcome: Outcome, seconds: number): void {
    this.#envelopes[environment][operation][outcome].value++;
    (this.#secondsOf[operation] ??= this.#envelopeSeconds.at(operation)).observe(seconds);
  }

  #addRoute(environment: EnvironmentLabel, route: string): RouteSeries {
    const seconds = this.#requestSeconds.at(environment, route);
    const series = { requests: new Map(), seconds, upstreamSeconds: undefined, overheadSeconds: undefined };
    const routes = this.#routes.get(environment) ?? new Map<string, RouteSeries>();
    this.#routes.set(environment, routes.set(route, series));
    return series;
  }

  #addRequests(
    { requests }: RouteSeries,
    environment: EnvironmentLabel,
    route: string,
    method: string,
    status: number,
  ): Count {
    const count = this.#requests.at(environment, route, method, status);
    const counts = requests.get(method) ?? new Map<number, Count>();
    requests.set(method, counts.set(status, count));
    return count;
  }
}

/** The counts of envelopes. All are exposed from startup on, because `increase()` needs a value from before the first envelope. */
function envelopeCounts(registry: Registry): Record<EnvironmentName, Record<Operation, Record<Outcome, Count>>> {
  const envelopes = new SeriesCounter(registry, {
    name: 'envelope_sidecar_envelopes_total',
    help: 'Envelopes opened and sealed.',
    labelNames: ['environment', 'operation', 'outcome'],
  });
  const createCounts = (environment: EnvironmentName, operation: Operation): Record<Outcome, Count> => ({
    ok: envelopes.at(environment, operation, 'ok'),
    failed: envelopes.at(environment, operation, 'failed'),
  });
  return {
    test: { open: createCounts('test', 'open'), seal: createCounts('test', 'seal') },
    live: { open: createCounts('live', 'open'), seal: createCounts('live', 'seal') },
  };
}
