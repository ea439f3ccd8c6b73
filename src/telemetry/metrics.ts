import { Gauge, type Registry } from 'prom-client';
import { environmentNames, type EnvironmentName } from '../accounts/api-key.ts';
import type { RefusalCode } from '../errors.ts';
import { SeriesCounter, SeriesHistogram } from './series.ts';

/** What is known of a request's environment: `none` before its host is. */
export type EnvironmentLabel = EnvironmentName | 'none';

/** Seconds: from half a millisecond, where the sidecar's own part shows, to the longest an upstream is waited for. */
const requestBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** Seconds: a request takes tens of microseconds, a look-up in a database milliseconds, one that waits for it up to a second. */
const overheadBuckets = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
const envelopeBuckets = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05];

const methodLabels = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * The metrics of the merchants' traffic. Every label has a closed set of values, so that no client can add series: the
 * route is the configured pattern, a method outside the usual ones is `other`.
 */
export class Metrics {
  readonly #requests;
  readonly #requestSeconds;
  readonly #upstreamSeconds;
  readonly #overheadSeconds;
  readonly #refusals;
  readonly #reported;
  readonly #grace;
  readonly #envelopes;
  readonly #envelopeSeconds;

  /** @param inFlight asked at each scrape: the requests whose response is not complete */
  constructor(registry: Registry, inFlight: () => number) {
    this.#requests = new SeriesCounter(registry, {
      name: 'envelope_sidecar_requests_total',
      help: 'Requests answered. Status 499: the client left before its response, or the end of a drain broke it off.',
      labelNames: ['environment', 'route', 'method', 'status'],
    });
    this.#requestSeconds = new SeriesHistogram(
      registry,
      {
        name: 'envelope_sidecar_request_duration_seconds',
        help: 'From the request head to the last byte of the response.',
        labelNames: ['environment', 'route'],
      },
      requestBuckets,
    );
    this.#upstreamSeconds = new SeriesHistogram(
      registry,
      {
        name: 'envelope_sidecar_upstream_duration_seconds',
        help: 'From handing the request to the upstream to the last byte of its response.',
        labelNames: ['environment', 'route'],
      },
      requestBuckets,
    );
    this.#overheadSeconds = new SeriesHistogram(
      registry,
      {
        name: 'envelope_sidecar_overhead_duration_seconds',
        help: "The sidecar's own part of the time to the head of the response: without waiting for the client's body and for the upstream.",
        labelNames: ['environment', 'route'],
      },
      overheadBuckets,
    );
    void new Gauge({
      name: 'envelope_sidecar_requests_in_flight',
      help: 'Requests whose response is not complete.',
      registers: [registry],
      collect() {
        this.set(inFlight());
      },
    });
    this.#refusals = new SeriesCounter(registry, {
      name: 'envelope_sidecar_refusals_total',
      help: 'Requests the sidecar answered itself with an error, by code.',
      labelNames: ['environment', 'code'],
    });
    this.#reported = new SeriesCounter(registry, {
      name: 'envelope_sidecar_reported_total',
      help: 'Requests that were let through although a rule refuses them, by the code of the refusal that is only reported.',
      labelNames: ['environment', 'code'],
    });
    this.#grace = new SeriesCounter(registry, {
      name: 'envelope_sidecar_grace_requests_total',
      help: 'Requests of accounts during a grace, by what they were answered with: current, previous or none.',
      labelNames: ['environment', 'credentials'],
    });
    this.#envelopes = new SeriesCounter(registry, {
      name: 'envelope_sidecar_envelopes_total',
      help: 'Envelopes opened and sealed.',
      labelNames: ['environment', 'operation', 'outcome'],
    });
    for (const environment of environmentNames) {
      for (const operation of ['open', 'seal']) {
        for (const outcome of ['ok', 'failed']) this.#envelopes.expose(environment, operation, outcome);
      }
    }
    this.#envelopeSeconds = new SeriesHistogram(
      registry,
      {
        name: 'envelope_sidecar_envelope_duration_seconds',
        help: 'Time spent opening or sealing one envelope.',
        labelNames: ['operation'],
      },
      envelopeBuckets,
    );
  }

  /** Counts one answered request; `seconds` from its head to its end. */
  request(environment: EnvironmentLabel, route: string, method: string, status: number, seconds: number): void {
    this.#requests.count(environment, route, methodLabels.has(method) ? method : 'other', status);
    this.#requestSeconds.observe(seconds, environment, route);
  }

  upstream(environment: EnvironmentLabel, route: string, seconds: number): void {
    this.#upstreamSeconds.observe(seconds, environment, route);
  }

  /** The sidecar's own part of the time to the head of the response. */
  overhead(environment: EnvironmentLabel, route: string, seconds: number): void {
    this.#overheadSeconds.observe(seconds, environment, route);
  }

  refusal(environment: EnvironmentLabel, code: RefusalCode): void {
    this.#refusals.count(environment, code);
  }

  /** A refusal that was not enforced. */
  reported(environment: EnvironmentName, code: RefusalCode): void {
    this.#reported.count(environment, code);
  }

  /** `previous`, and `none` for plaintext: the account still uses what a grace accepts besides. */
  grace(environment: EnvironmentLabel, credentials: 'current' | 'previous' | 'none'): void {
    this.#grace.count(environment, credentials);
  }

  envelope(environment: EnvironmentName, operation: 'open' | 'seal', outcome: 'ok' | 'failed', seconds: number): void {
    this.#envelopes.count(environment, operation, outcome);
    this.#envelopeSeconds.observe(seconds, operation);
  }
}
