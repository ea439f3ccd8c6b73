import type { ApiKey, Use } from '../api.ts';
import { distance, now } from '../dates.ts';
import { texts } from '../texts.ts';

const say = texts.use;

/** Small bars for the requests per day through all sidecars or, if the days are not known, per hour at this sidecar. */
export function UseLine({ use: { hours, days } }: { use: Use }) {
  const counts = days ?? hours;
  const most = Math.max(...counts);
  if (most === 0) return <span class="faint">{texts.nothing}</span>;
  const sum = counts.reduce((all, each) => all + each, 0);
  const label = days === null ? say.inHours(sum) : say.inDays(sum);
  const height = 20;
  return (
    <svg class="use" viewBox={`0 0 ${counts.length * 4} ${height}`} role="img" aria-label={label}>
      <title>{label}</title>
      {counts.map((count, i) => {
        const bar = count === 0 ? 1 : Math.max(2, (count / most) * height);
        return <rect key={i} x={i * 4} y={height - bar} width={3} height={bar} />;
      })}
    </svg>
  );
}

/** The heading of a column of `UseLine`s. */
export function useHeading([first]: readonly { readonly use: Use }[]): string {
  return first === undefined || first.use.days === null ? say.hours : say.days;
}

/** The traffic of the last hour in words, such as `412 requests in the last hour, the last 3 seconds ago`. */
export function traffic(use: Pick<Use, 'last_hour' | 'last_at'>): string {
  if (use.last_at === null) return say.none;
  return say.traffic(use.last_hour, distance(Date.parse(use.last_at), now.value, 'seconds'));
}

/** Combines the use of several keys. */
export function sumUses(uses: readonly Use[]): Pick<Use, 'last_hour' | 'last_at'> {
  const times = uses.flatMap(({ last_at: at }) => at ?? []);
  return {
    last_hour: uses.reduce((sum, { last_hour: each }) => sum + each, 0),
    last_at: times.toSorted().at(-1) ?? null,
  };
}

/** When any of the keys was last used, as far as the store or this sidecar knows. Null means never; undefined means not recorded. */
export function lastUse(
  keys: readonly Pick<ApiKey, 'last_used_at'>[],
  { last_at: here }: Use,
): string | null | undefined {
  const stored = keys.map(({ last_used_at: at }) => at);
  const times = [...stored, here].filter((at) => typeof at === 'string');
  return times.toSorted().at(-1) ?? (stored.includes(undefined) ? undefined : null);
}
