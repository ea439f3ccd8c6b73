import { useSignal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLoad } from '../load.ts';
import { set } from '../set.ts';
import { texts } from '../texts.ts';
import { Problems, Show } from './states.tsx';

/** A page of a list of the API. */
interface Page {
  /** Asks for the next page; null: this is the last. */
  readonly next: string | null;
  /** The accounts that cannot be read from the store. */
  readonly unreadable: readonly string[];
}

/** Parameters that are added to the query of a page. */
export type After = { readonly after?: string };

interface PagesProps<Data> {
  readonly ask: (after: After) => Promise<Data>;
  /** How often the page is asked for, in milliseconds. Undefined: once. */
  readonly every?: number;
  readonly children: (page: Data) => ComponentChildren;
}

/** A list of the API, page by page. With a new `key` it begins at the first page. */
export function Pages<Data extends Page>(props: PagesProps<Data>) {
  const after = useSignal<string | undefined>(undefined);
  return <OnePage key={after.value} after={after} {...props} />;
}

function OnePage<Data extends Page>({
  after,
  ask,
  every,
  children,
}: PagesProps<Data> & { after: Signal<string | undefined> }) {
  const query = after.value === undefined ? {} : { after: after.value };
  const loaded = useLoad(() => ask(query), every);
  return (
    <Show loaded={loaded}>
      {(page) => (
        <>
          <Problems title={texts.unreadable} problems={page.unreadable} />
          {children(page)}
          {(after.value !== undefined || page.next !== null) && (
            <div class="row end">
              {after.value !== undefined && <button onClick={set(after, undefined)}>{texts.first}</button>}
              {page.next !== null && <button onClick={set(after, page.next)}>{texts.more}</button>}
            </div>
          )}
        </>
      )}
    </Show>
  );
}
