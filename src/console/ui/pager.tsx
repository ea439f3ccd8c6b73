import type { Signal } from '@preact/signals';
import { texts } from '../texts.ts';

/** The way to the next page of a list and back to its first. */
export function Pager({ after, next }: { after: Signal<string | undefined>; next: string | null }) {
  if (after.value === undefined && next === null) return null;
  return (
    <div class="row end">
      {after.value !== undefined && (
        <button
          onClick={() => {
            after.value = undefined;
          }}
        >
          {texts.first}
        </button>
      )}
      {next !== null && (
        <button
          onClick={() => {
            after.value = next;
          }}
        >
          {texts.more}
        </button>
      )}
    </div>
  );
}
