import { distance, inFull, now } from '../dates.ts';
import { texts } from '../texts.ts';

/** A time as its distance from now, and in full as its title. Null: never. Undefined: not recorded. */
export function When({ date }: { date: string | null | undefined }) {
  if (date === undefined) return <span class="faint">{texts.notRecorded}</span>;
  if (date === null) return <span class="faint">{texts.never}</span>;
  return (
    <time dateTime={date} title={inFull(date)}>
      {distance(Date.parse(date), now.value)}
    </time>
  );
}
