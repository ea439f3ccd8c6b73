import { rfc3339 } from '../input/value-types.ts';
import type { RecentTraffic } from '../telemetry/recent-traffic.ts';

/** The requests with these keys, as the API shows them. @param now epoch milliseconds */
export function useOf({ keyUses }: RecentTraffic, keys: readonly string[], now: number) {
  const { hours, lastHour, lastAt, attempts, lastAttemptAt } = keyUses.of(keys, now);
  return {
    hours,
    last_hour: lastHour,
    last_at: lastAt === undefined ? null : rfc3339(lastAt),
    attempts,
    last_attempt_at: lastAttemptAt === undefined ? null : rfc3339(lastAttemptAt),
  };
}
