import type { RecordedEvent, Unreadable } from './store.ts';
import { viewEvent, type AuditEventView } from './views.ts';

/** A page of a list, and the position of the next one. */
export interface Page<Item, Position> {
  readonly items: readonly Item[];
  /** Where the next page begins; null on the last page. */
  readonly next: Position | null;
  /** Problems of items that are left out because they cannot be read. */
  readonly unreadable: readonly string[];
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

/** Reads a page of the audit trail; `next` is the position of its last event. */
export async function trailPage(
  size: number,
  list: (unreadable: Unreadable) => AsyncIterable<RecordedEvent>,
): Promise<Page<AuditEventView, number>> {
  const items: AuditEventView[] = [];
  const unreadable: string[] = [];
  let last = 0;
  for await (const event of list(({ message }) => void unreadable.push(message))) {
    if (items.length === size) return { items, next: last, unreadable };
    items.push(viewEvent(event));
    last = event.position;
  }
  return { items, next: null, unreadable };
}
