import { refusalOf, type RefusalCode } from '../errors.ts';
import type { AccessLine } from '../telemetry/access-log.ts';
import type { GatewayRequest } from './gateway-request.ts';
import { traceIdOf } from './request-head.ts';

/** The status of a request whose client left before its response was complete, or that was broken off before it began. */
const clientLeft = 499;

/** The access line of a request that is over. Durations in milliseconds, to the microsecond. */
export function accessLine(request: GatewayRequest): AccessLine {
  const { res, head, holder } = request;
  // An upgraded connection has a status without a response; a broken response has one from its head on.
  const hasStatus = request.answeredInWhole || res.statusCode === 101 || (request.brokenOff && request.answered);
  return {
    request_id: request.id,
    trace_id: request.trace?.traceId ?? traceIdOf(head?.traceparent),
    environment: request.environment,
    route: request.route,
    method: request.req.method,
    status: hasStatus ? res.statusCode : clientLeft,
    code: request.refusal,
    reported: request.reported.length === 0 ? undefined : request.reported.join(),
    account: holder?.account.id,
    api_key: holder?.key.id,
    credentials: request.refusal === undefined ? request.grace : undefined,
    reason: request.reason,
    upstream_error: request.upstreamFailure?.cause,
    bytes_in: request.bytesIn,
    bytes_out: request.bytesOut,
    duration_ms: rounded(performance.now() - request.times.startedAt),
    upstream_ms: request.times.upstream === undefined ? undefined : rounded(request.times.upstream),
    envelope_ms: request.envelopeTime === 0 ? undefined : rounded(request.envelopeTime),
  };
}

/** The access line of what Node's parser could not make a request of: there is nothing to measure. */
export function unparsedLine(id: string, code: RefusalCode): AccessLine {
  return {
    request_id: id,
    trace_id: undefined,
    environment: undefined,
    route: 'none',
    method: undefined,
    status: refusalOf(code).status,
    code,
    reported: undefined,
    account: undefined,
    api_key: undefined,
    credentials: undefined,
    reason: undefined,
    upstream_error: undefined,
    bytes_in: undefined,
    bytes_out: undefined,
    duration_ms: undefined,
    upstream_ms: undefined,
    envelope_ms: undefined,
  };
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
