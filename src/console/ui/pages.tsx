import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLoad } from '../load.ts';
import { set, type Cell } from '../route.ts';
import { texts } from '../texts.ts';
import { Problems, Show } from './states.tsx';

/** A page of a list from the API. */
interface Page {
  /** The position of the next page; null on the last page. */
  readonly next: string | null;
  /** The position of the previous page; null on the first page. Undefined if the API only offers a way back to the beginning. */
  readonly previous?: string | null;
  /** The accounts that cannot be read from the store. */
  readonly unreadable: readonly string[];
}

/** Parameters that are added to the query of a page. */
export type After = { readonly after?: string };

interface PagesProps<Data> {
  readonly ask: (after: After) => Promise<Data>;
  /** How often the page is loaded, in milliseconds. Undefined to load it only once. */
  readonly every?: number;
  /** The position in the list; empty at its beginning. Undefined if this component keeps the position itself. */
  readonly at?: Cell<string>;
  readonly children: (page: Data) => ComponentChildren;
}

/** A list from the API, page by page. With a new `key`, it starts at the first page again. */
export function Pages<Data extends Page>(props: PagesProps<Data>) {
  const own = useSignal('');
  const after = props.at ?? own;
  return <OnePage key={after.value} after={after} {...props} />;
}

function OnePage<Data extends Page>({ after, ask, every, children }: PagesProps<Data> & { after: Cell<string> }) {
  const query = after.value === '' ? {} : { after: after.value };
  const loaded = useLoad(() => ask(query), every);
  return (
    <Show loaded={loaded}>
      {(page) => (
        <>
          <Problems title={texts.unreadable} problems={page.unreadable} />
          {children(page)}
          <Turn at={after} {...page} />
        </>
      )}
    </Show>
  );
}

function Turn({ at, next, previous }: { at: Cell<string> } & Pick<Page, 'next' | 'previous'>) {
  const isFirst = previous === undefined ? at.value === '' : previous === null;
  if (isFirst && next === null) return null;
  return (
    <div class="row end">
      {!isFirst && (
        <button onClick={set(at, previous ?? '')}>{previous === undefined ? texts.first : texts.newer}</button>
      )}
      {next !== null && <button onClick={set(at, next)}>{previous === undefined ? texts.more : texts.older}</button>}
    </div>
  );
}
