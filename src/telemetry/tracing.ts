import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  RandomIdGenerator,
  TracerProvider,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_HTTP_ROUTE,
  ATTR_SERVICE_NAME,
  ATTR_SERVICE_VERSION,
} from '@opentelemetry/semantic-conventions';
import { ownText } from '../own-text.ts';
import type { AccessLine } from './access-log.ts';
import type { Logger } from './logger.ts';
import { traceparentForm } from './traceparent.ts';
import type { EpochMs, MonotonicMs } from '../times.ts';

/** The collector, and the share of requests that are traced. */
export interface TracingSettings {
  /** Base URL of an OTLP/HTTP receiver. */
  readonly otlp: string;
  /** From 0 to 1. */
  readonly sample: number;
}

/** How many milliseconds the delivery of the last traces may take at shutdown. */
const lastTracesTime = 3_000;

/** How many milliseconds one delivery may take, including retries. */
const deliveryTime = 2_000;

/** Traces requests with OpenTelemetry's SDK. This module is loaded only if traces are configured. */
export class Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #sample: number;
  readonly #ids = new RandomIdGenerator();

  constructor({ otlp, sample }: TracingSettings, version: string, log: Logger) {
    const exporter = new OTLPTraceExporter({ url: `${otlp}/v1/traces`, timeoutMillis: deliveryTime });
    const resource = { [ATTR_SERVICE_NAME]: 'envelope-sidecar', [ATTR_SERVICE_VERSION]: version };
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(resourceFromAttributes(resource)),
      sampler: new AlwaysOnSampler(),
      spanProcessors: [new BatchSpanProcessor({ exporter: watched(exporter, log) })],
    });
    this.#tracer = this.#provider.getTracer('envelope-sidecar', version);
    this.#sample = sample;
  }

  /**
   * Begins the trace of a request, or continues the client's trace. A trusted proxy may have decided whether the trace is sampled. Other
   * clients can neither decide that nor influence it by their choice of trace id, because they must not be able to switch tracing on.
   *
   * @param traceparent as received
   * @param trusted     whether the request comes from a trusted proxy
   * @param startedAt   when the request began
   */
  begin(traceparent: string | undefined, trusted: boolean, startedAt: MonotonicMs, now: EpochMs): RequestTrace {
    const parent = parseParent(traceparent);
    const decision =
      trusted && parent !== undefined ? (parent.traceFlags & TraceFlags.SAMPLED) !== 0 : Math.random() < this.#sample;
    const continues = parent !== undefined;
    if (!decision) return new UnsampledTrace(this.#ids, parent?.traceId ?? this.#ids.generateTraceId(), continues);
    const context = continues ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
    return new SampledTrace(this.#tracer, context, continues, startedAt, now);
  }

  /** Delivers the remaining spans, or gives up after a short time. */
  async close(): Promise<void> {
    const timeout = new Promise<void>((resolve) => void setTimeout(resolve, lastTracesTime).unref());
    await Promise.race([this.#provider.shutdown().catch(() => {}), timeout]);
  }
}

/** The trace of one request. */
export interface RequestTrace {
  readonly traceId: string;
  /** Whether this trace continues a client's trace. If it does, `tracestate` is forwarded too. */
  readonly continues: boolean;
  /** Begins the span of the request to the upstream and returns its `traceparent`. @param now by the same clock as `startedAt` */
  forward(now: MonotonicMs): string;
  /** Ends the trace and adds members of the access line to it. These contain no path, query, header or body. */
  end(line: AccessLine): void;
}

/** A trace that contains only ids. An OpenTelemetry span would cost as much as half a request, even if it is not recorded. */
class UnsampledTrace implements RequestTrace {
  readonly traceId: string;
  readonly continues: boolean;
  readonly #ids: RandomIdGenerator;

  constructor(ids: RandomIdGenerator, traceId: string, continues: boolean) {
    this.#ids = ids;
    this.traceId = traceId;
    this.continues = continues;
  }

  forward(): string {
    return `00-${this.traceId}-${this.#ids.generateSpanId()}-00`;
  }

  end(): void {}
}

/** The spans of one request: one for the sidecar's work and, within it, one for the request to the upstream. */
class SampledTrace implements RequestTrace {
  readonly continues: boolean;
  readonly #tracer: Tracer;
  readonly #context: Context;
  readonly #server: Span;
  readonly #startedAt: MonotonicMs;
  readonly #epoch: number;
  #client: Span | undefined;
  #forwardedAt = 0;

  constructor(tracer: Tracer, context: Context, continues: boolean, startedAt: MonotonicMs, epoch: number) {
    this.continues = continues;
    this.#tracer = tracer;
    this.#startedAt = startedAt;
    this.#epoch = epoch;
    this.#server = tracer.startSpan('request', { kind: SpanKind.SERVER, startTime: epoch }, context);
    this.#context = trace.setSpan(context, this.#server);
  }

  get traceId(): string {
    return this.#server.spanContext().traceId;
  }

  forward(now: MonotonicMs): string {
    this.#forwardedAt = this.#epoch + (now - this.#startedAt);
    this.#client = this.#tracer.startSpan(
      'request to the upstream',
      { kind: SpanKind.CLIENT, startTime: this.#forwardedAt },
      this.#context,
    );
    const { traceId, spanId } = this.#client.spanContext();
    return `00-${traceId}-${spanId}-01`;
  }

  end(line: AccessLine): void {
    const end = this.#epoch + (line.duration_ms ?? 0);
    const { method = '', route, status, code, upstream_error: failure, upstream_ms } = line;
    if (this.#client !== undefined) {
      this.#client.updateName(method).setAttribute(ATTR_HTTP_REQUEST_METHOD, method);
      if (code === undefined) this.#client.setAttribute(ATTR_HTTP_RESPONSE_STATUS_CODE, status);
      if (failure !== undefined) {
        this.#client.setAttribute(ATTR_ERROR_TYPE, failure).setStatus({ code: SpanStatusCode.ERROR });
      }
      this.#client.end(upstream_ms === undefined ? end : this.#forwardedAt + upstream_ms);
    }
    this.#server.updateName(`${method} ${route}`).setAttributes({
      [ATTR_HTTP_REQUEST_METHOD]: method,
      [ATTR_HTTP_ROUTE]: route,
      [ATTR_HTTP_RESPONSE_STATUS_CODE]: status,
      'envelope_sidecar.request_id': line.request_id,
      'envelope_sidecar.environment': line.environment,
      'envelope_sidecar.refusal': code,
      'envelope_sidecar.account': line.account,
      'envelope_sidecar.api_key': line.api_key,
      'envelope_sidecar.envelope_ms': line.envelope_ms,
    });
    if (status >= 500) {
      this.#server.setAttribute(ATTR_ERROR_TYPE, code ?? String(status)).setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#server.end(end);
  }
}

/** Logs when the delivery of traces begins to fail, and when it works again. Requests are served in either case. */
function watched(exporter: SpanExporter, log: Logger): SpanExporter {
  let failing = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined;
        if (failed && !failing) log.warn({ err: result.error }, 'traces cannot be delivered');
        if (!failed && failing) log.info('traces are delivered again');
        failing = failed;
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
}

function parseParent(traceparent: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceparent === undefined ? [] : (traceparentForm.exec(traceparent) ?? []);
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return {
    traceId: ownText(traceId),
    spanId: ownText(spanId),
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
  };
}
