import type { Use } from '../api.ts';
import { distance, now } from '../dates.ts';
import { texts } from '../texts.ts';

const say = texts.use;

/** Requests by hour as small bars. */
export function UseLine({ use: { hours } }: { use: Use }) {
  const most = Math.max(...hours);
  if (most === 0) return <span class="faint">{texts.nothing}</span>;
  const sum = hours.reduce((all, each) => all + each, 0);
  const height = 20;
  return (
    <svg class="use" viewBox={`0 0 ${hours.length * 4} ${height}`} role="img" aria-label={say.line(sum)}>
      <title>{say.line(sum)}</title>
      {hours.map((count, i) => {
        const bar = count === 0 ? 1 : Math.max(2, (count / most) * height);
        return <rect key={i} x={i * 4} y={height - bar} width={3} height={bar} />;
      })}
    </svg>
  );
}

/** The traffic of the last hour in words: `412 requests in the last hour, the last 3 seconds ago`. */
export function traffic(use: Pick<Use, 'last_hour' | 'last_at'>): string {
  if (use.last_at === null) return say.none;
  return say.traffic(use.last_hour, distance(Date.parse(use.last_at), now.value, 'seconds'));
}

/** The uses of several keys as one. */
export function sumOf(uses: readonly Use[]): Pick<Use, 'last_hour' | 'last_at'> {
  const times = uses.flatMap(({ last_at: at }) => at ?? []);
  return {
    last_hour: uses.reduce((sum, { last_hour: each }) => sum + each, 0),
    last_at: times.toSorted().at(-1) ?? null,
  };
}
