import { readFlow } from './simple-flow.ts';
import { NotSimple, scalarOf, withoutSpaces } from './simple-scalar.ts';

/** A line with a member: where it begins, whether it begins an item of a list, its name and its value as written. */
const member = /^( *)(- )?([A-Za-z][A-Za-z0-9]{0,99}):(?: +([^ #].*)| +#.*)?$/;
/** A line with an item that is no mapping, or one in braces. */
const item = /^( *)- ([^ #].*)$/;
const blankOrComment = /^ *(?:#.*)?$/;
const quoted = /^(?:"[^"]*"|'[^']*')/;
const lineEnd = /(?: +#.*)?$/y;

/** Control characters, tabs and carriage returns among them, byte order marks, other line separators. */
const unusual = /[^\P{C}\n]|[\u2028\u2029]/u;

interface Line {
  /** The column of the name, or of an item that is no mapping in lines. */
  readonly column: number;
  readonly isItem: boolean;
  /** Undefined: an item that is no mapping in lines. */
  readonly name: string | undefined;
  /** Empty: it has members or items of its own. */
  readonly value: string;
}

/**
 * Reads YAML of the usual form: block mappings and lists with one member per line; texts, and values in braces or brackets, on one
 * line; or JSON without escapes. The parser takes twenty times as long and a hundred times the memory, for positions that only
 * problems need. Undefined for any other text, valid or not, which the parser must read.
 */
export function simpleYaml(text: string): unknown {
  if (unusual.test(text)) return undefined;
  try {
    return text.startsWith('{') ? readJson(text) : new SimpleReader(text).read();
  } catch (error) {
    if (error instanceof NotSimple) return undefined;
    throw error;
  }
}

function readJson(text: string): unknown {
  const { value, end } = readFlow(text, 0);
  if (text.slice(end).trim() !== '') throw new NotSimple();
  return value;
}

class SimpleReader {
  readonly #text: string;
  #offset = 0;
  /** The line to be read next; undefined at the end. */
  #line: Line | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#advance();
  }

  read(): unknown {
    if (this.#line?.column !== 0) throw new NotSimple();
    const value = this.#members(0);
    if (this.#line !== undefined) throw new NotSimple();
    return value;
  }

  /** The members whose names begin at this column; the first may begin an item. */
  #members(column: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    let isFirst = true;
    for (let line = this.#line; line?.column === column && (isFirst || !line.isItem); line = this.#line) {
      isFirst = false;
      const { name, value } = line;
      if (name === undefined || Object.hasOwn(members, name)) throw new NotSimple();
      this.#advance();
      members[name] = value === '' ? this.#nested(column) : valueOf(value);
    }
    return members;
  }

  /** The value below a name at this column. */
  #nested(column: number): unknown {
    const line = this.#line;
    if (line?.isItem === true && line.column - 2 >= column) return this.#items(line.column);
    if (line?.isItem === false && line.column > column) return this.#members(line.column);
    throw new NotSimple();
  }

  /** @param column of the names in the items */
  #items(column: number): readonly unknown[] {
    const items: unknown[] = [];
    for (let line = this.#line; line?.isItem === true && line.column === column; line = this.#line) {
      if (line.name === undefined) this.#advance();
      items.push(line.name === undefined ? valueOf(line.value) : this.#members(column));
    }
    return items;
  }

  #advance(): void {
    while (this.#offset < this.#text.length) {
      const newline = this.#text.indexOf('\n', this.#offset);
      const end = newline === -1 ? this.#text.length : newline;
      const text = this.#text.slice(this.#offset, end);
      this.#offset = end + 1;
      if (blankOrComment.test(text)) continue;
      const match = member.exec(text);
      if (match !== null) {
        const [, indent = '', dash, name, value = ''] = match;
        this.#line = { column: indent.length + (dash === undefined ? 0 : 2), isItem: dash !== undefined, name, value };
        return;
      }
      const [, indent = '', value] = item.exec(text) ?? [];
      if (value === undefined) throw new NotSimple();
      this.#line = { column: indent.length + 2, isItem: true, name: undefined, value };
      return;
    }
    this.#line = undefined;
  }
}

/** The value that begins here and ends with the line, or with a comment. */
function valueOf(written: string): unknown {
  const isFlow = written.startsWith('{') || written.startsWith('[');
  const { value, end } = isFlow ? readFlow(written, 0) : scalarIn(written);
  lineEnd.lastIndex = end;
  if (!lineEnd.test(written)) throw new NotSimple();
  return value;
}

function scalarIn(written: string): { readonly value: unknown; readonly end: number } {
  const [scalar] = quoted.exec(written) ?? [withoutSpaces(written.split(' #', 1)[0] ?? '')];
  return { value: scalarOf(scalar), end: scalar.length };
}
