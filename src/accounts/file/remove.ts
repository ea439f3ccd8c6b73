import { isSeq, parseDocument } from 'yaml';
import type { StoredAccount } from '../store.ts';
import { changedText, hasAliases, layout, spanOf, type ChangedText } from './edit.ts';

/** The text of an accounts' file after a decision, which either writes accounts or removes some. */
export function rewrittenText(
  { text, accounts }: { readonly text: string; readonly accounts: readonly StoredAccount[] },
  changed: readonly StoredAccount[],
  removed: readonly string[],
): ChangedText {
  if (removed.length > 0) {
    const without = withoutAccounts(text, accounts, new Set(removed));
    return { text: without, part: without, accounts: accounts.filter(({ id }) => !removed.includes(id)) };
  }
  return changed.length === 0 ? { text, part: 'accounts: []', accounts: [] } : changedText(text, accounts, changed);
}

/**
 * The text of an accounts' file without some accounts. In a block list, all other lines stay as they are, comments included.
 *
 * @param before the accounts of the text, in its order
 */
function withoutAccounts(text: string, before: readonly StoredAccount[], removed: ReadonlySet<string>): string {
  const document = parseDocument(text, { schema: 'core', stringKeys: true, uniqueKeys: false });
  const list = document.get('accounts');
  if (!isSeq(list)) throw new Error('a text that was read as accounts has none');
  const places = before.flatMap(({ id }, i) => (removed.has(id) ? [i] : [])).toReversed();
  if (list.flow !== true && places.length < before.length && !hasAliases(document)) {
    // From last to first, so that the positions of earlier items stay valid.
    return places.reduce((left, i) => {
      const { from, to } = spanOf(text, list.items[i]);
      const dash = text.lastIndexOf('-', from - 1);
      return left.slice(0, text.lastIndexOf('\n', dash) + 1) + left.slice(to);
    }, text);
  }
  for (const i of places) list.delete(i);
  // An empty block list would be null.
  if (list.items.length === 0) list.flow = true;
  const result = document.toString(layout);
  return text.includes('\r\n') ? result.replaceAll(/\r?\n/g, '\r\n') : result;
}
