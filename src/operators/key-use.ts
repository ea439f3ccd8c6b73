import { daysOfUse } from '../accounts/accounts.ts';
import { rfc3339 } from '../input/value-types.ts';
import { sum, type KeyUse } from '../telemetry/key-uses.ts';
import type { OperatorsToken } from '../config/config.ts';
import type { Parts } from './endpoint.ts';
import type { EpochMs } from '../times.ts';

/**
 * Reads the use of keys.
 *
 * @param token the token of the request
 * @param all the ids of the keys
 * @returns a function that returns the total use of some of these keys, in the form that the API shows
 */
export async function readUses(
  { recent, dailyUses }: Parts,
  token: OperatorsToken,
  all: readonly string[],
  now: EpochMs,
) {
  const daily = await dailyUses(token.account ?? '', all, now);
  return (keys: readonly string[]) => {
    const days = keys.map((key) => daily?.get(key) ?? []);
    return {
      ...viewUse(recent.keyUses.of(keys, now)),
      days:
        daily === undefined
          ? null
          : Array.from({ length: daysOfUse }, (_, i) => sum(days.map((counts) => counts[i] ?? 0))),
    };
  };
}

function viewUse({ hours, lastHour, lastAt, attempts, lastAttemptAt }: KeyUse) {
  return {
    hours,
    last_hour: lastHour,
    last_at: lastAt === undefined ? null : rfc3339(lastAt),
    attempts,
    last_attempt_at: lastAttemptAt === undefined ? null : rfc3339(lastAttemptAt),
  };
}
