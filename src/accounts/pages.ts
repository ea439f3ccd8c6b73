import type { RecordedEvent, Unreadable } from './store.ts';
import { viewEvent, type AuditEventView } from './views.ts';

/** A page of a list, and the position of the next page. */
export interface Page<Item, Position> {
  readonly items: readonly Item[];
  /** Where the next page begins; null on the last page. */
  readonly next: Position | null;
  /** The problems of items that were left out because they cannot be read. */
  readonly unreadable: readonly string[];
}

/** The size at which a page ends, in characters of JSON. It is limited because memory may hold several pages, each in several copies. */
const maxBytes = 1 << 20;

/** Maximum number of problems that a page lists individually. */
const maxProblems = 100;

/** Collects the problems of a page: the first ones, followed by the number of further problems. */
export class Problems {
  readonly #messages: string[] = [];
  #more = 0;

  readonly add: Unreadable = ({ message }) => {
    if (this.#messages.length < maxProblems) this.#messages.push(message);
    else this.#more += 1;
  };

  get list(): readonly string[] {
    return this.#more === 0 ? this.#messages : [...this.#messages, `${this.#more} more cannot be read`];
  }
}

/**
 * Reads a page of items that belong to accounts; `next` is the id of its last account. The items of one account are never split between
 * pages, so a full page grows until the next account begins.
 *
 * @param size the number of items at which a page is full; a page of large items is full sooner
 * @param account the name of the member that holds the id of an item's account
 */
export async function accountsPage<Member extends string, Item extends Readonly<Record<Member, string>>>(
  size: number,
  list: (unreadable: Unreadable) => AsyncIterable<Item>,
  account: Member,
): Promise<Page<Item, string>> {
  const items: Item[] = [];
  const problems = new Problems();
  let bytes = 0;
  for await (const item of list(problems.add)) {
    const last = items.at(-1);
    const isFull = items.length >= size || bytes >= maxBytes;
    if (last !== undefined && isFull && last[account] !== item[account]) {
      return { items, next: last[account], unreadable: problems.list };
    }
    bytes += JSON.stringify(item).length;
    items.push(item);
  }
  return { items, next: null, unreadable: problems.list };
}

/** Reads a page of the audit trail; `next` is the position of its last event. */
export async function trailPage(
  size: number,
  list: (unreadable: Unreadable) => AsyncIterable<RecordedEvent>,
): Promise<Page<AuditEventView, number>> {
  const items: AuditEventView[] = [];
  const problems = new Problems();
  let last = 0;
  for await (const event of list(problems.add)) {
    if (items.length === size) return { items, next: last, unreadable: problems.list };
    items.push(viewEvent(event));
    last = event.position;
  }
  return { items, next: null, unreadable: problems.list };
}
