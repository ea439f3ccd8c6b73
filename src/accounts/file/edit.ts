import { Document, isCollection, isMap, isNode, isPair, isScalar, isSeq, parseDocument, visit } from 'yaml';
import type { Node, Range, YAMLMap, YAMLSeq } from 'yaml';
import type { StoredAccount } from '../store.ts';
import { isList, isMembers, toMembers, type Members, type Plain } from './members.ts';

const layout = { lineWidth: 0 } as const;

/**
 * The text of an accounts file after a change. Only the members that differ are changed; references, comments and the existing order are
 * kept. If the accounts are a block list without aliases, as they usually are, and at least one of them remains, all other lines are kept
 * byte for byte; if not, the whole file is reformatted. Kept lines do not pass through the YAML library, which would attach a comment
 * between two accounts to the first one.
 *
 * @param before  the accounts in the text, in the same order
 * @param changed accounts to write; accounts with a new id are added at the end
 * @param removed the ids of accounts to leave out
 * @param anew    whether to reformat the whole file in any case
 */
export function editedText(
  text: string,
  before: readonly StoredAccount[],
  changed: readonly StoredAccount[],
  removed: readonly string[],
  anew = false,
): string {
  const document = parseDocument(text, { schema: 'core', stringKeys: true, uniqueKeys: false });
  const list = document.get('accounts');
  if (!isSeq(list)) throw new Error('a text that was read as accounts has no accounts');
  const places = new Map(before.map(({ id }, place) => [id, place]));
  const removedPlaces = removed.flatMap((id) => places.get(id) ?? []);
  const keepsLines = !anew && list.flow !== true && removedPlaces.length < before.length && !hasAliases(document);
  const spans = keepsLines ? list.items.map((item) => findSpan(text, item)) : [];
  const edits: Edit[] = removedPlaces.map((place) => ({ place, isRemoved: true }));
  const added: Members[] = [];
  for (const account of changed) {
    const place = places.get(account.id);
    const old = place === undefined ? undefined : before[place];
    if (place === undefined || old === undefined) {
      added.push(toMembers(account));
    } else {
      edits.push({ place, isRemoved: false });
      change(document, list, place, toMembers(old), toMembers(account));
    }
  }
  const result = keepsLines ? splice(text, list, spans, edits, added) : rewrite(document, list, removedPlaces, added);
  return text.includes('\r\n') ? result.replaceAll(/\r?\n/g, '\r\n') : result;
}

/** An account that is rewritten, or removed, at its place in the list. */
interface Edit {
  readonly place: number;
  readonly isRemoved: boolean;
}

/** Changes `collection[step]` from `before` to `after`. */
function change(
  document: Document,
  collection: YAMLMap | YAMLSeq,
  step: string | number,
  before: Plain | undefined,
  after: Plain | undefined,
): void {
  if (JSON.stringify(before) === JSON.stringify(after)) return;
  const node: unknown = collection.get(step, true);
  if (after === undefined) {
    collection.delete(step);
  } else if (isMap(node) && isMembers(before) && isMembers(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      change(document, node, name, before[name], after[name]);
    }
  } else if (isSeq(node) && isList(before) && isList(after)) {
    for (const [i, item] of after.entries()) {
      if (i < before.length) change(document, node, i, before[i], item);
      else add(document, node, item);
    }
  } else if (isScalar(node) && !isMembers(after) && !isList(after)) {
    node.value = after;
  } else {
    collection.set(step, document.createNode(after));
  }
}

/** Adds an item to a list. If the list was empty (`[]`), it becomes a block list. */
function add(document: Document, list: YAMLSeq, item: Plain): void {
  if (list.items.length === 0) list.flow = false;
  list.add(document.createNode(item));
}

function hasAliases(document: Document): boolean {
  let found = false;
  visit(document, {
    Alias: () => {
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

/** Applies the changes to the list and returns the whole document as the YAML library formats it. */
function rewrite(document: Document, list: YAMLSeq, removed: readonly number[], added: readonly Members[]): string {
  for (const members of added) add(document, list, members);
  for (const place of removed.toSorted((a, b) => b - a)) list.delete(place);
  // An empty block list would be read as null.
  if (list.items.length === 0) list.flow = true;
  return document.toString(layout);
}

/** Returns the text with some items of the list rewritten in place or removed, and new items added after the last one. */
function splice(
  text: string,
  list: YAMLSeq,
  spans: readonly Span[],
  edits: readonly Edit[],
  added: readonly Members[],
): string {
  const [first, second] = spans;
  const last = list.items.at(-1);
  const end = endOfLine(text, hasRange(last) ? last.range[2] : text.length);
  const isSpaced = first !== undefined && second !== undefined && /\n\s*\n/.test(text.slice(first.to - 1, second.from));
  const column = findColumn(text, list.range?.[0] ?? 0);
  const items = added.map(
    (members) =>
      `${isSpaced ? '\n' : ''}${' '.repeat(column)}- ${render(new Document(members).contents, column + 2)}\n`,
  );
  const newline = items.length === 0 || text.slice(0, end).endsWith('\n') ? '' : '\n';
  let result = text.slice(0, end) + newline + items.join('') + text.slice(end);
  // The edits are made from last to first, so that the positions of earlier items stay valid.
  for (const { place, isRemoved } of edits.toSorted((a, b) => b.place - a.place)) {
    const span = spans[place];
    if (span === undefined) continue;
    const { from, to } = span;
    if (isRemoved) {
      const dash = text.lastIndexOf('-', from - 1);
      result = result.slice(0, text.lastIndexOf('\n', dash) + 1) + result.slice(to);
    } else {
      const lines = render(list.items[place], findColumn(text, from));
      result = result.slice(0, from) + lines + (text[to - 1] === '\n' ? '\n' : '') + result.slice(to);
    }
  }
  return result;
}

/** The position of an item in the text. */
interface Span {
  readonly from: number;
  /** The end of the item's last line that contains more than a comment. */
  readonly to: number;
}

/**
 * The position of an item, without the comments before and after it. The parser attaches trailing comments to the last node inside the
 * item, however deeply nested. They are detached from that node, because the text outside the item keeps them.
 */
function findSpan(text: string, item: unknown): Span {
  if (!hasRange(item)) throw new Error('an item that was read has no position');
  item.commentBefore = null;
  item.spaceBefore = false;
  let node: Node = item;
  for (let last: unknown = item; isNode(last);) {
    node = last;
    if (!isCollection(node) || node.flow === true) break;
    node.comment = null;
    const inner: unknown = node.items.at(-1);
    last = isPair(inner) ? (hasRange(inner.value) ? inner.value : inner.key) : inner;
  }
  return { from: item.range[0], to: endOfLine(text, node.range?.[1] ?? item.range[1]) };
}

/** The start of the first line that begins at or after `offset`; the length of the text if there is none. */
function endOfLine(text: string, offset: number): number {
  return text[offset - 1] === '\n' ? offset : text.indexOf('\n', offset) + 1 || text.length;
}

function hasRange(item: unknown): item is Node & { range: Range } {
  return isNode(item) && item.range != null;
}

/** The lines of an item. The first one is not indented. */
function render(item: unknown, indent: number): string {
  return new Document(item)
    .toString(layout)
    .replace(/[ \n]+$/, '')
    .replaceAll(/\n(?!\n)/g, `\n${' '.repeat(indent)}`);
}

function findColumn(text: string, offset: number): number {
  return offset - (text.lastIndexOf('\n', offset - 1) + 1);
}
