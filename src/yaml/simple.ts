/** A line with a member: where it begins, whether it begins an item of a list, its name and its value as written. */
const member = /^( *)(- )?([A-Za-z][A-Za-z0-9]*):(?: +(\S.*))?$/;
const blankOrComment = /^ *(?:#.*)?$/;

/** Control characters, tabs and carriage returns among them, byte order marks, other line separators. */
const unusual = /[^\P{C}\n]|[\u2028\u2029]/u;

const quoted = /^(?:"([^"\\]*)"|'([^']*)')$/;
const plain = /^[\p{L}0-9/_](?:[^:#]|:(?=[^\s:#]))*$/u;
const keyword = /^(?:null|true|false)$/i;

interface Line {
  /** The column of the name. */
  readonly column: number;
  readonly isItem: boolean;
  readonly name: string;
  /** Empty: it has members or items of its own. */
  readonly value: string;
}

/** Thrown for input that is not of the simple form. */
class NotSimple extends Error {}

/**
 * Reads YAML of the form that the sidecar writes: block mappings and lists with one member per line and texts on one
 * line. The parser takes twenty times as long and a hundred times the memory, for positions that only problems need.
 * Undefined for any other text, valid or not, which the parser must read.
 */
export function simpleYaml(text: string): unknown {
  if (unusual.test(text)) return undefined;
  try {
    return new SimpleReader(text).read();
  } catch (error) {
    if (error instanceof NotSimple) return undefined;
    throw error;
  }
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
      if (Object.hasOwn(members, line.name)) throw new NotSimple();
      this.#advance();
      members[line.name] = line.value === '' ? this.#nested(column) : scalar(line.value);
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
    while (this.#line?.isItem === true && this.#line.column === column) items.push(this.#members(column));
    return items;
  }

  #advance(): void {
    while (this.#offset < this.#text.length) {
      const newline = this.#text.indexOf('\n', this.#offset);
      const end = newline === -1 ? this.#text.length : newline;
      const text = this.#text.slice(this.#offset, end);
      this.#offset = end + 1;
      const match = member.exec(text);
      if (match !== null) {
        const [, indent = '', dash, name = '', value = ''] = match;
        this.#line = { column: indent.length + (dash === undefined ? 0 : 2), isItem: dash !== undefined, name, value };
        return;
      }
      if (!blankOrComment.test(text)) throw new NotSimple();
    }
    this.#line = undefined;
  }
}

/** The value of a text, as the core schema of YAML 1.2 has it. Numbers are left to the parser. */
function scalar(written: string): unknown {
  const [, double, single] = quoted.exec(written) ?? [];
  if (double !== undefined) return double;
  if (single !== undefined) return single;
  if (written === 'true') return true;
  if (written === 'false') return false;
  if (written === '[]') return [];
  if (!plain.test(written) || written.endsWith(' ') || keyword.test(written) || !Number.isNaN(Number(written))) {
    throw new NotSimple();
  }
  return written;
}
