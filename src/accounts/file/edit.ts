import { Document, isCollection, isMap, isNode, isPair, isScalar, isSeq, parseDocument, visit } from 'yaml';
import type { Node, Range, YAMLMap, YAMLSeq } from 'yaml';
import { simpleYaml } from '../../yaml/simple.ts';
import type { StoredAccount } from '../store.ts';
import { isList, isMembers, itemLines, membersOf, styled, type Members, type Plain } from './members.ts';

export const layout = { lineWidth: 0 } as const;

/** An accounts' file after a change. */
export interface ChangedText {
  readonly text: string;
  /** A text with the accounts of `text` that have to be checked. All others are unchanged to the byte. */
  readonly part: string;
  /** The accounts in `part`, in its order. */
  readonly accounts: readonly StoredAccount[];
}

/**
 * The text of an accounts' file in which accounts are changed. Of a long list only the items around the change are parsed.
 *
 * @param before  the accounts of the text, in its order
 * @param changed accounts to be written; those with a new id come last
 */
export function changedText(
  text: string,
  before: readonly StoredAccount[],
  changed: readonly StoredAccount[],
): ChangedText {
  const ids = new Set(before.map(({ id }) => id));
  const added = changed.filter(({ id }) => !ids.has(id));
  const byId = new Map(changed.map((account) => [account.id, account]));
  const after = (accounts: readonly StoredAccount[]): readonly StoredAccount[] => [
    ...accounts.map((account) => byId.get(account.id) ?? account),
    ...added,
  ];
  const items = itemsOf(text, before.length);
  if (items !== undefined) {
    // The first two items show the spacing. New items follow the last one.
    const picked = before
      .map((_, i) => i)
      .filter((i) => i < 2 || i === before.length - 1 || byId.has(before[i]?.id ?? ''));
    const some = picked.flatMap((i) => before[i] ?? []);
    const part = editText(items.head + picked.map((i) => items.texts[i]).join(''), some, changed);
    const edited = itemsOf(part, picked.length + added.length);
    if (edited !== undefined && edited.head === items.head) {
      const texts = [...items.texts];
      for (const [place, i] of picked.entries()) texts[i] = edited.texts[place] ?? '';
      const whole = items.head + texts.join('') + edited.texts.slice(picked.length).join('');
      return { text: whole, part, accounts: after(some) };
    }
  }
  const whole = editText(text, before, changed);
  return { text: whole, part: whole, accounts: after(before) };
}

/** A file cut up before each item of its list. */
interface Items {
  readonly head: string;
  readonly texts: readonly string[];
}

/**
 * The items of a block list. Undefined if their number differs from the expected one, or if an item may depend on
 * another. In a valid text, a line with a dash at the column of the list begins an item, because the contents of an
 * item are indented further.
 */
function itemsOf(text: string, count: number): Items | undefined {
  // Where they stand in a text of the simple form, they are part of a name.
  const mayHaveAnchors = /[&*][^\s&*]/.test(text) && simpleYaml(text) === undefined;
  const [, indent] = /^accounts:[^\n]*\n(?:[ ]*(?:#[^\n]*)?\n)*( *)- /m.exec(text) ?? [];
  if (indent === undefined || mayHaveAnchors || text.includes('\r')) return undefined;
  const starts = [...text.matchAll(new RegExp(`^${indent}- `, 'gm'))].map(({ index }) => index);
  const [first] = starts;
  if (first === undefined || starts.length !== count) return undefined;
  return { head: text.slice(0, first), texts: starts.map((start, i) => text.slice(start, starts[i + 1])) };
}

/**
 * The text of an accounts' file with some accounts changed. Only the members that differ are touched, so that references,
 * comments and the order of the rest stay. If the accounts are a block list, as they usually are, all other accounts keep every
 * byte; otherwise the file is formatted anew. Parameters as of `changedText`.
 */
function editText(text: string, before: readonly StoredAccount[], changed: readonly StoredAccount[]): string {
  const document = parseDocument(text, { schema: 'core', stringKeys: true, uniqueKeys: false });
  const list = document.get('accounts');
  if (!isSeq(list)) throw new Error('a text that was read as accounts has none');

  const isLines = list.flow !== true && before.length > 0 && !hasAliases(document);
  const spans = isLines ? list.items.map((item) => spanOf(text, item)) : [];
  const places = new Map(before.map(({ id }, i) => [id, i]));
  const touched: number[] = [];
  const added: Members[] = [];
  for (const account of changed) {
    const place = places.get(account.id);
    const old = place === undefined ? undefined : before[place];
    if (place === undefined || old === undefined) {
      added.push(membersOf(account));
    } else {
      touched.push(place);
      change(document, list, place, membersOf(old), membersOf(account));
    }
  }
  if (!isLines) for (const members of added) add(list, nodeOf(document, members));
  const result = isLines ? spliced(text, list, spans, touched, added) : document.toString(layout);
  return text.includes('\r\n') ? result.replaceAll(/\r?\n/g, '\r\n') : result;
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
      else add(node, nodeOf(document, item));
    }
  } else if (isScalar(node) && !isMembers(after) && !isList(after)) {
    node.value = after;
    styled(node);
  } else {
    collection.set(step, nodeOf(document, after));
  }
}

function nodeOf(document: Document, value: Plain): Node {
  const node: Node = document.createNode(value);
  visit(node, { Scalar: (_, scalar) => void styled(scalar) });
  return node;
}

/** Items added to an empty list, `[]`, are written as a block. */
function add(list: YAMLSeq, item: Node): void {
  if (list.items.length === 0) list.flow = false;
  list.add(item);
}

export function hasAliases(document: Document): boolean {
  let found = false;
  visit(document, {
    Alias: () => {
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

/** The text with these items of the list rewritten in place, and new ones after the last. */
function spliced(
  text: string,
  list: YAMLSeq,
  spans: readonly Span[],
  changed: readonly number[],
  added: readonly Members[],
): string {
  const [first, second] = spans;
  const last = list.items.at(-1);
  const end = endOfLine(text, hasRange(last) ? last.range[2] : text.length);
  const isSpaced = first !== undefined && second !== undefined && /\n\s*\n/.test(text.slice(first.to - 1, second.from));
  const indent = ' '.repeat(columnOf(text, list.range?.[0] ?? 0));
  const items = added.map((members) => `${isSpaced ? '\n' : ''}${itemLines(members, indent)}`).join('');
  const newline = items === '' || text.slice(0, end).endsWith('\n') ? '' : '\n';
  let result = text.slice(0, end) + newline + items + text.slice(end);
  // From last to first, so that the positions of earlier items stay valid.
  for (const i of changed.toSorted((a, b) => b - a)) {
    const span = spans[i];
    if (span === undefined) continue;
    const newline = text[span.to - 1] === '\n' ? '\n' : '';
    const lines = render(list.items[i], columnOf(text, span.from));
    result = result.slice(0, span.from) + lines + newline + result.slice(span.to);
  }
  return result;
}

/** The position of an item in the text. */
interface Span {
  readonly from: number;
  /** The end of its last line that is not a comment only. */
  readonly to: number;
}

/**
 * The position of an item, without the comments before and after it. The parser attaches those after it to a node inside, however
 * deep; they are removed there, because they stay in the text.
 */
export function spanOf(text: string, item: unknown): Span {
  if (!hasRange(item)) throw new Error('an item that was read stands nowhere');
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

/** The offset after the next newline at or after `offset`. */
function endOfLine(text: string, offset: number): number {
  return text[offset - 1] === '\n' ? offset : text.indexOf('\n', offset) + 1 || text.length;
}

function hasRange(item: unknown): item is Node & { range: Range } {
  return isNode(item) && item.range != null;
}

/** An item's own lines, the first without indentation. */
function render(item: unknown, indent: number): string {
  return new Document(item)
    .toString(layout)
    .replace(/[ \n]+$/, '')
    .replaceAll(/\n(?!\n)/g, `\n${' '.repeat(indent)}`);
}

function columnOf(text: string, offset: number): number {
  return offset - (text.lastIndexOf('\n', offset - 1) + 1);
}
