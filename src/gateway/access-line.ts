import type { GatewayRequest } from './gateway-request.ts';
import { traceIdOf } from './request-head.ts';

/** The status of a request whose client left before its response was complete, or that was broken off before it began. */
const clientLeft = 499;

/** What the log says of a request: these members and no others. No path, query, header, body, address or key. */
export interface AccessLine {
  readonly request_id: string;
  readonly trace_id: string | undefined;
  readonly environment: string | undefined;
  readonly route: string;
  readonly method: string | undefined;
  readonly status: number;
  readonly code: string | undefined;
  readonly account: string | undefined;
  readonly api_key: string | undefined;
  /** During a grace: what the request was answered with. */
  readonly credentials: GatewayRequest['grace'];
  readonly reason: string | undefined;
  readonly upstream_error: string | undefined;
  readonly bytes_in: number;
  readonly bytes_out: number;
  readonly duration_ms: number;
  readonly upstream_ms: number | undefined;
  readonly envelope_ms: number | undefined;
}

/** The access line of a request that is over. Durations in milliseconds, to the microsecond. */
export function accessLine(request: GatewayRequest): AccessLine {
  const { res, head, holder } = request;
  // An upgraded connection has a status without a response; a broken response has one from its head on.
  const hasStatus = request.answeredInWhole || res.statusCode === 101 || (request.brokenOff && request.answered);
  return {
    request_id: request.id,
    trace_id: traceIdOf(head?.traceparent),
    environment: request.environment,
    route: request.route,
    method: request.req.method,
    status: hasStatus ? res.statusCode : clientLeft,
    code: request.refusal,
    account: holder?.account.id,
    api_key: holder?.key.id,
    credentials: request.refusal === undefined ? request.grace : undefined,
    reason: request.reason,
    upstream_error: request.upstreamFailure?.cause,
    bytes_in: request.bytesIn,
    bytes_out: request.bytesOut,
    duration_ms: rounded(performance.now() - request.startedAt),
    upstream_ms: request.upstreamTime === undefined ? undefined : rounded(request.upstreamTime),
    envelope_ms: request.envelopeTime === 0 ? undefined : rounded(request.envelopeTime),
  };
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
