import type { Unreadable } from './store.ts';
import type { AuditEventView } from './views.ts';

/** A page of a list, and the position of the next one. */
export interface Page<Item, Position> {
  readonly items: readonly Item[];
  /** Where the next page begins; null on the last page. */
  readonly next: Position | null;
  /** Problems of items that are left out because they cannot be read. */
  readonly unreadable: readonly string[];
}

/** A position in the audit trail. Many events may have the same time, for instance after an import. */
export interface TrailPosition {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The number of events of this time before it. */
  readonly skip: number;
}

/**
 * Reads a page of items that belong to accounts; `next` is the id of its last account. The items of one account are not split: a full
 * page grows until the next account begins.
 *
 * @param account the member that has the id of an item's account
 */
export async function accountsPage<Member extends string, Item extends Readonly<Record<Member, string>>>(
  size: number,
  list: (unreadable: Unreadable) => AsyncIterable<Item>,
  account: Member,
): Promise<Page<Item, string>> {
  const items: Item[] = [];
  const unreadable: string[] = [];
  for await (const item of list(({ message }) => void unreadable.push(message))) {
    const last = items.at(-1);
    if (last !== undefined && items.length >= size && last[account] !== item[account]) {
      return { items, next: last[account], unreadable };
    }
    items.push(item);
  }
  return { items, next: null, unreadable };
}

/**
 * Reads a page of the audit trail.
 *
 * @param list  the events from the time of `after` on, the oldest first
 * @param after `next` of the page before
 */
export async function trailPage(
  size: number,
  list: (unreadable: Unreadable) => AsyncIterable<AuditEventView>,
  after: TrailPosition | undefined,
): Promise<Page<AuditEventView, TrailPosition>> {
  const items: AuditEventView[] = [];
  const unreadable: string[] = [];
  let next = after ?? { at: 0, skip: 0 };
  let toSkip = next.skip;
  for await (const event of list(({ message }) => void unreadable.push(message))) {
    const at = Date.parse(event.at);
    if (toSkip > 0 && at === after?.at) {
      toSkip--;
      continue;
    }
    if (items.length === size) return { items, next, unreadable };
    items.push(event);
    next = { at, skip: next.at === at ? next.skip + 1 : 1 };
  }
  return { items, next: null, unreadable };
}
