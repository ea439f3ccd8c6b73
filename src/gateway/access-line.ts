import type { AccessLine } from '../telemetry/access-log.ts';
import type { Reply } from './reply.ts';
import { traceIdOf } from './request-head.ts';

/** The status of a request whose client left before its response was complete, or was aborted before it began. */
const clientLeft = 499;

/** The access line of a completed request. Durations in milliseconds, to the microsecond. */
export function accessLine(reply: Reply): AccessLine {
  const { request, refusal, sealing } = reply;
  const { head, holder, reported, stats } = request;
  return {
    request_id: request.id,
    trace_id: request.trace?.traceId ?? traceIdOf(head?.traceparent),
    environment: request.environment,
    route: request.route,
    method: request.raw.method,
    status: reply.status ?? clientLeft,
    code: refusal,
    reported: reported.length === 0 ? undefined : reported.join(),
    account: holder?.account.id,
    api_key: holder?.key.id,
    credentials: refusal === undefined && sealing?.inGrace === true ? sealing.credentials : undefined,
    reason: stats.reason,
    upstream_error: stats.upstreamFailure?.cause,
    bytes_in: stats.bytesIn,
    bytes_out: stats.bytesOut,
    duration_ms: rounded(performance.now() - stats.startedAt),
    upstream_ms: stats.upstream === undefined ? undefined : rounded(stats.upstream),
    envelope_ms: stats.envelope === 0 ? undefined : rounded(stats.envelope),
  };
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}
