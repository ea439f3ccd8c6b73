import type { Uses } from '../accounts/key-directory.ts';
import { getKind } from '../accounts/api-key.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { AccessLine } from '../telemetry/access-log.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import { traceparentForm } from '../telemetry/traceparent.ts';
import type { TrafficRecorder } from '../telemetry/traffic-recorder.ts';
import { loggedAddress } from './admit/client-address.ts';
import type { Responder } from './respond/responder.ts';
import type { EpochMs } from '../times.ts';

/** The logged status of a request whose client left before the response was complete. */
const clientLeft = 499;

/** The logged status of a request whose connection the sidecar closed before the response began. */
const closedBySidecar = 444;

/**
 * The only place where requests are logged, counted and traced, and where the use of keys and grace periods is recorded. The returned
 * function is called once for each request, when its outcome is known.
 *
 * @param used returns how much of each limit is in use, for explanations
 */
export function observeWith(
  log: Logger,
  recorder: TrafficRecorder,
  clock: () => EpochMs,
  used: () => LimitUse['used'],
  uses: () => Uses | undefined,
): (responder: Responder) => void {
  return (responder) => {
    const { error, exchange, timing, unexpectedEnvelope } = responder;
    const { environment, opened, reported, trace } = exchange;
    if (error !== undefined) log.error({ err: error, request_id: exchange.id }, 'request failed');
    recorder.record(accessLine(responder), { opened, overhead: timing.overhead, unexpectedEnvelope, trace });
    if (log.isLevelEnabled('debug')) log.debug(explanation(responder, used()), 'decision');
    if (environment !== undefined) for (const code of reported) recorder.metrics.reported(environment.name, code);
    noteUse(responder, recorder, uses(), clock());
  };
}

/** Records the use of the API key and of the grace period, if there is one. The directory may store both. */
function noteUse(
  { exchange, refusal }: Responder,
  { metrics, recent }: TrafficRecorder,
  uses: Uses | undefined,
  now: EpochMs,
): void {
  const { environment, encryption, principal, sealing, tier } = exchange;
  if (tier === 'anonymous' || principal?.account.active !== true || environment === undefined) return;
  const { account, key } = principal;
  uses?.key(key.id, now);
  if (encryption?.grace === undefined || sealing === undefined || refusal !== undefined) return;
  // If encryption has been disabled, plaintext counts as current, because it is accepted even after the grace period.
  const isCurrent = sealing.sealer === encryption.current;
  metrics.graceRequest(environment.name, isCurrent ? 'current' : sealing.credentials);
  if (isCurrent) return;
  uses?.previous(account.id, environment.name, encryption.grace.until, now);
  recent.graceUses.add(account.id, environment.name, key.id, now);
}

/** The access line of a completed request. Durations are in milliseconds, rounded to the microsecond. */
export function accessLine(responder: Responder): AccessLine {
  const { exchange, http, refusal, reservation, timing } = responder;
  const { head, principal, reported, sealing, trace } = exchange;
  const { closedFor } = responder.client;
  return {
    request_id: exchange.id,
    trace_id:
      trace?.traceId ?? (head?.traceparent === undefined ? undefined : traceparentForm.exec(head.traceparent)?.[1]),
    client: loggedAddress(responder.client, head?.forwarded.for, responder.snapshot),
    environment: exchange.environment?.name,
    route: exchange.route,
    method: http.head?.method,
    status: responder.status ?? (closedFor === undefined ? clientLeft : closedBySidecar),
    code: refusal?.code,
    closed: closedFor,
    reported: reported.length === 0 ? undefined : reported.join(),
    account: principal?.account.id,
    api_key: principal?.key.id,
    credentials: refusal === undefined && sealing?.inGrace === true ? sealing.credentials : undefined,
    reason: refusal?.code === 'overloaded' ? reservation.exceeded?.shortage : refusal?.details.reason,
    upstream_error: responder.upstreamError,
    bytes_in: http.received,
    bytes_out: responder.bytesOut,
    duration_ms: rounded(performance.now() - timing.startedAt),
    upstream_ms: timing.upstream === undefined ? undefined : rounded(timing.upstream),
    envelope_ms: timing.envelope === 0 ? undefined : rounded(timing.envelope),
  };
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 1_000) / 1_000;
}

/**
 * Explains the decision about a request at the log level `debug`: its routes, the kind of its key, and the limit that refused the request.
 * Like the access line, the explanation contains no path, query, header or body. Unlike the access line, it also contains no address.
 *
 * @param used how much of each limit is in use when the request ends
 */
function explanation(responder: Responder, used: LimitUse['used']): object {
  const { id, environment, encryption, match, principal } = responder.exchange;
  return {
    request_id: id,
    match: match?.outcome,
    routes: match?.routes,
    key_kind: principal === undefined ? undefined : getKind(principal.key.prefix),
    encrypts: environment === undefined ? undefined : encryption !== undefined,
    limit: exceededLimit(responder, used),
  };
}

/** The configured limit that caused the refusal; undefined if no limit did. */
function exceededLimit({ refusal, reservation, snapshot }: Responder, used: LimitUse['used']): object | undefined {
  const { limits, timeouts } = snapshot;
  switch (refusal?.code) {
    case 'overloaded': {
      const { limit, shortage } = reservation.exceeded ?? {};
      return limit === undefined ? undefined : { name: limit, limit: limits[limit], used: used[limit], shortage };
    }
    case 'too_many_attempts':
      return { name: 'failedKeys', limit: limits.failedKeys.attempts, window_ms: limits.failedKeys.window };
    case 'body_too_large':
      return { name: 'requestBody', limit: limits.requestBody };
    case 'request_timeout':
      return { name: 'timeouts.request', limit_ms: timeouts.request };
    case 'upstream_timeout':
      return { name: 'timeouts.upstream', limit_ms: timeouts.upstream };
    default:
      return undefined;
  }
}
