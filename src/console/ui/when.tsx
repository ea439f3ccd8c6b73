import { distance, inFull, now } from '../dates.ts';
import { texts } from '../texts.ts';

/** A time as its distance from now; in full when it is pointed at. Null: never. */
export function When({ date, never = texts.never }: { date: string | null | undefined; never?: string }) {
  if (date === null || date === undefined) return <span class="faint">{never}</span>;
  return (
    <time dateTime={date} title={inFull(date)}>
      {distance(Date.parse(date), now.value)}
    </time>
  );
}
