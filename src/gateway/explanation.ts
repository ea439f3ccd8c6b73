import { kindOf } from '../accounts/api-key.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import type { Reply } from './reply.ts';

/**
 * Explains the decision about a request for the log's level `debug`: its routes, its kind of key, and the limit that refused it.
 * Like the access line it has no path, query, header, body or address.
 *
 * @param used the use at the end of the request
 */
export function explanationOf(reply: Reply, used: LimitUse['used']): object {
  const { id, environment, encryption, head, holder, rules } = reply.request;
  const match = head === undefined ? undefined : rules.router.match(head.path, head.method);
  return {
    request_id: id,
    match: match?.outcome,
    routes: match?.routes,
    key_kind: holder === undefined ? undefined : kindOf(holder.key.prefix),
    encrypts: environment === undefined ? undefined : encryption !== undefined,
    limit: limitOf(reply, used),
  };
}

/** The configured limit that refused the request. */
function limitOf({ refusal, request }: Reply, used: LimitUse['used']): object | undefined {
  const { limits, timeouts } = request.rules;
  switch (refusal) {
    case 'overloaded':
      return request.reservation.exceeded === 'inFlight'
        ? { name: 'inFlight', limit: limits.inFlight, used: used.inFlight }
        : { name: 'buffered', limit: limits.buffered, used: used.buffered };
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
