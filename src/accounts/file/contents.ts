import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Files, displayName } from '../../yaml/files.ts';
import { formatFileProblem } from '../../yaml/file-problem.ts';
import type { Env } from '../../yaml/values.ts';
import { YamlFile } from '../../yaml/yaml-file.ts';
import { AccountsError } from '../accounts-error.ts';
import type { StoredAccount } from '../store.ts';
import { editedText } from './edit.ts';
import { toMembers } from './members.ts';
import { readAccounts } from './read.ts';

/** The text of a valid accounts file, and its accounts. */
export interface Content {
  readonly text: string;
  /** The accounts, in the order in which the text lists them. */
  readonly accounts: readonly StoredAccount[];
  /** Where each account starts in the text; undefined if the accounts cannot be read individually. See `YamlFile.findItemLines`. */
  readonly starts: readonly number[] | undefined;
}

/**
 * Reads and edits an accounts file. If the text is the one that was last read or written, it is not parsed again. If only some accounts
 * differ, only the part of the text with these accounts is parsed, where possible.
 */
export class Contents {
  readonly #file: string;
  readonly #env: Env;
  /** The content that was last read or written; undefined if it depends on other files. */
  #known: Content | undefined;

  /**
   * @param file the path of the accounts file. References to other files are relative to its folder
   * @param env the variables for references in the file
   */
  constructor(file: string, env: Env) {
    this.#file = file;
    this.#env = env;
  }

  /** Reads the file. @throws AccountsError `store_invalid` @throws WrongValue if the file cannot be read */
  read(path: string): Content {
    const files = new Files();
    const text = files.read(path);
    if (text === this.#known?.text) return this.#known;
    const { problems, ...content } = this.#parse(path, files, text);
    const [first] = problems;
    if (first !== undefined) {
      const others = problems.length === 1 ? '' : ` (and ${problems.length - 1} more: run "check")`;
      throw new AccountsError('store_invalid', formatFileProblem(first) + others);
    }
    this.#known = files.seen.size > 1 ? undefined : content;
    return content;
  }

  /**
   * Returns the content after a change.
   *
   * @throws AccountsError `store_invalid` if the text cannot be changed without changing more than was asked for
   */
  edited(path: string, before: Content, changed: readonly StoredAccount[], removed: readonly string[]): Content {
    const left = before.accounts.filter(({ id }) => !removed.includes(id));
    const expected = replaced(left, changed).map(toMembers);
    const edit = (anew: boolean): Content & { readonly problem: string | undefined } => {
      const lines = anew || removed.length > 0 ? undefined : editedLines(before, changed);
      const text = lines ?? editedText(before.text, before.accounts, changed, removed, anew);
      const { problems, ...content } = this.#parse(path, new Files(), text);
      const isExpected = isDeepStrictEqual(content.accounts.map(toMembers), expected);
      return { ...content, problem: problems[0]?.message ?? (isExpected ? undefined : entangled) };
    };
    const inPlace = edit(false);
    // If editing in place fails, the whole text is rewritten, because keys must be revocable whatever the layout of a valid file.
    const { problem, ...content } = inPlace.problem === undefined ? inPlace : edit(true);
    if (problem !== undefined) throw new AccountsError('store_invalid', `${displayName(path)} ${problem}`);
    return content;
  }

  /** Remembers the content that was written. */
  know(content: Content): void {
    if (this.#known !== undefined) this.#known = content;
  }

  /** Reads text as the content of the file. Nothing is unwrapped, so that a key can be revoked without the master key. */
  #parse(path: string, files: Files, text: string): Content & Pick<YamlFile, 'problems'> {
    const parse = (part: string, read: Files): Content & Pick<YamlFile, 'problems'> => {
      const file = new YamlFile(path, read, dirname(this.#file), part);
      const { accounts } = readAccounts(file, this.#env, undefined);
      return { text: part, accounts, starts: file.findItemLines('accounts'), problems: file.problems };
    };
    const difference =
      this.#known &&
      readDifference(this.#known, text, (part) => {
        const others = new Files();
        const { problems, ...content } = parse(part, others);
        return problems.length === 0 && others.seen.size === 0 ? content : undefined;
      });
    return difference === undefined ? parse(text, files) : { ...difference, problems: [] };
  }
}

const entangled = 'cannot be changed without also changing other values: write out its aliases (*name) first';

/** The accounts after a change. Changed accounts keep their places, and new accounts are added at the end. */
function replaced(accounts: readonly StoredAccount[], changed: readonly StoredAccount[]): readonly StoredAccount[] {
  return [...new Map([...accounts, ...changed].map((account) => [account.id, account])).values()];
}

/** Reads text as accounts; undefined if it has a mistake or depends on other files. */
type ReadText = (text: string) => Content | undefined;

/**
 * Reads text that differs from known text in only a few accounts. Reading one of a thousand accounts takes only a hundredth of the time
 * needed to read them all. A part of the text is read on its own only if it means the same as within the whole text.
 *
 * @returns undefined if the text must be read as a whole, for example to report its mistakes
 */
export function readDifference(known: Content, text: string, read: ReadText): Content | undefined {
  const { starts, accounts } = known;
  const head = known.text.slice(0, starts?.[0]);
  if (starts === undefined || !isPlainHead(head) || !text.startsWith(head)) return undefined;
  const part = (i: number): string => known.text.slice(starts[i], starts[i + 1]);
  let from = 0;
  while (from < starts.length && text.startsWith(part(from), starts[from])) from += 1;
  // Lines that were added after an account may belong to it, so the last unchanged account is read again.
  from = Math.max(0, from - 1);
  const begin = starts[from] ?? 0;
  let to = starts.length;
  let end = text.length;
  while (to > from && text.endsWith(part(to - 1), end)) {
    to -= 1;
    end -= part(to).length;
  }
  const different = text.slice(begin, end);
  // A second YAML document, which is a mistake, may begin or end anywhere. The mistake is detected only if the whole text is read.
  if (/^(?:---|\.\.\.|%)/m.test(different) || (to < starts.length && !different.endsWith('\n'))) return undefined;
  const beginning = `accounts:${newlineOf(text)}`;
  const found = read(beginning + different);
  if (found?.starts === undefined || columnOf(found) !== columnOf(known)) return undefined;
  const all = [...accounts.slice(0, from), ...found.accounts, ...accounts.slice(to)];
  if (hasDuplicates(all)) return undefined;
  return {
    text,
    accounts: all,
    starts: [
      ...starts.slice(0, from),
      ...found.starts.map((start) => start - beginning.length + begin),
      ...starts.slice(to).map((start) => start + text.length - known.text.length),
    ],
  };
}

/** Like `editedText`, but edits only the lines of existing accounts; undefined if the whole text must be edited. */
function editedLines({ text, accounts, starts }: Content, changed: readonly StoredAccount[]): string | undefined {
  if (starts === undefined) return undefined;
  const places = new Map(accounts.map(({ id }, place) => [id, place]));
  const beginning = `accounts:${newlineOf(text)}`;
  const edits: { readonly place: number; readonly lines: string }[] = [];
  for (const account of changed) {
    const place = places.get(account.id);
    const before = place === undefined ? undefined : accounts[place];
    if (place === undefined || before === undefined) return undefined;
    const lines = editedText(beginning + text.slice(starts[place], starts[place + 1]), [before], [account], []);
    edits.push({ place, lines: lines.slice(beginning.length) });
  }
  let result = text;
  // The edits are made from last to first, so that the positions of earlier accounts stay valid.
  for (const { place, lines } of edits.toSorted((a, b) => b.place - a.place))
    result = result.slice(0, starts[place]) + lines + result.slice(starts[place + 1] ?? result.length);
  return result;
}

/** Whether the text before the accounts contains neither another member nor a directive, so that it cannot affect the accounts. */
function isPlainHead(head: string): boolean {
  return head.split('\n').every((line) => /^\uFEFF?\s*(?:#|$)|^accounts:\s*(?:#|$)/.test(line));
}

function newlineOf(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

/** The indentation of the accounts, which is the same for all of them. */
function columnOf({ text, starts: [start = 0] = [] }: Content): number {
  return text.indexOf('-', start) - start;
}

function hasDuplicates(accounts: readonly StoredAccount[]): boolean {
  const keys = accounts.flatMap((account) => account.keys);
  const unique = (texts: readonly string[]): boolean => new Set(texts).size === texts.length;
  return ![accounts.map(({ id }) => id), keys.map(({ id }) => id), keys.map(({ hash }) => hash)].every(unique);
}
