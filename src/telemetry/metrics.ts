import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';

/** What is known of a request's environment: `none` before its host is. */
export type EnvironmentLabel = EnvironmentName | 'none';

/** Seconds: from half a millisecond, where the sidecar's own part shows, to the longest an upstream is waited for. */
const requestBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

const methodLabels = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * The metrics of the merchants' traffic. Every label has a closed set of values, so that no client can add series: the
 * route is the configured pattern, a method outside the usual ones is `other`.
 */
export class Metrics {
  readonly #requests: Counter<'environment' | 'route' | 'method' | 'status'>;
  readonly #requestSeconds: Histogram<'environment' | 'route'>;
  readonly #upstreamSeconds: Histogram<'environment'>;
  readonly #refusals: Counter<'environment' | 'code'>;
  readonly #grace: Counter<'environment' | 'credentials'>;
  readonly #envelopes: Counter<'environment' | 'operation' | 'outcome'>;
  readonly #envelopeSeconds: Histogram<'operation'>;

  /** @param inFlight asked at each scrape: the requests whose response is not complete */
  constructor(registry: Registry, inFlight: () => number) {
    const registers = [registry];
    this.#requests = new Counter({
      name: 'envelope_sidecar_requests_total',
      help: 'Requests answered. Status 499: the client left before its response, or the end of a drain broke it off.',
      labelNames: ['environment', 'route', 'method', 'status'],
      registers,
    });
    this.#requestSeconds = new Histogram({
      name: 'envelope_sidecar_request_duration_seconds',
      help: 'From the request head to the last byte of the response.',
      labelNames: ['environment', 'route'],
      buckets: requestBuckets,
      registers,
    });
    this.#upstreamSeconds = new Histogram({
      name: 'envelope_sidecar_upstream_duration_seconds',
      help: 'From handing the request to the upstream to the last byte of its response.',
      labelNames: ['environment'],
      buckets: requestBuckets,
      registers,
    });
    void new Gauge({
      name: 'envelope_sidecar_requests_in_flight',
      help: 'Requests whose response is not complete.',
      registers,
      collect() {
        this.set(inFlight());
      },
    });
    this.#refusals = new Counter({
      name: 'envelope_sidecar_refusals_total',
      help: 'Requests the sidecar answered itself with an error, by code.',
      labelNames: ['environment', 'code'],
      registers,
    });
    this.#grace = new Counter({
      name: 'envelope_sidecar_grace_requests_total',
      help: 'Requests of accounts during a grace, by what they were answered with: current, previous or none.',
      labelNames: ['environment', 'credentials'],
      registers,
    });
    this.#envelopes = new Counter({
      name: 'envelope_sidecar_envelopes_total',
      help: 'Envelopes opened and sealed.',
      labelNames: ['environment', 'operation', 'outcome'],
      registers,
    });
    // A series that begins with its first failure shows no increase: `increase()` needs a value before.
    for (const environment of environmentNames) {
      for (const operation of ['open', 'seal']) {
        for (const outcome of ['ok', 'failed']) this.#envelopes.inc({ environment, operation, outcome }, 0);
      }
    }
    this.#envelopeSeconds = new Histogram({
      name: 'envelope_sidecar_envelope_duration_seconds',
      help: 'Time spent opening or sealing one envelope.',
      labelNames: ['operation'],
      buckets: [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05],
      registers,
    });
  }

  /** Counts one answered request; `seconds` from its head to its end. */
  request(environment: EnvironmentLabel, route: string, method: string, status: number, seconds: number): void {
    this.#requests.inc({ environment, route, method: methodLabels.has(method) ? method : 'other', status });
    this.#requestSeconds.observe({ environment, route }, seconds);
  }

  upstream(environment: EnvironmentLabel, seconds: number): void {
    this.#upstreamSeconds.observe({ environment }, seconds);
  }

  refusal(environment: EnvironmentLabel, code: RefusalCode): void {
    this.#refusals.inc({ environment, code });
  }

  /** `previous`, and `none` for plaintext: the account still uses what a grace accepts besides. */
  grace(environment: EnvironmentLabel, credentials: 'current' | 'previous' | 'none'): void {
    this.#grace.inc({ environment, credentials });
  }

  envelope(environment: EnvironmentName, operation: 'open' | 'seal', outcome: 'ok' | 'failed', seconds: number): void {
    this.#envelopes.inc({ environment, operation, outcome });
    this.#envelopeSeconds.observe({ operation }, seconds);
  }
}
