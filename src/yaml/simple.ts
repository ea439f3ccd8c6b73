/** Control characters, tabs and carriage returns among them, byte order marks, other line separators. */
const unusual = /[^\P{Cc}\n]|[\p{Cs}\uFEFF\u2028\u2029]/u;

const blankLine = / *(?:#.*)?\n| *#.*$| +$/y;
const lineEnd = /(?: +#.*)?(?:\n|$)/y;
/** The beginning of a line: whether it begins an item of a list, and the name of a member. */
const head = /( *)(- )?(?:([A-Za-z][A-Za-z0-9]{0,99}):(?=[ \n]|$))?/y;
const nameInBraces = /(?:([A-Za-z][A-Za-z0-9]{0,99})(?=: )|"([A-Za-z][A-Za-z0-9]{0,99})"(?=:)):/y;
const quoted = /"([^"\\\n]*)"|'((?:[^'\n]|'')*)'/y;
const spaces = / */y;
const spacesAndNewlines = /[ \n]*/y;
/** Text to the end of the line or to a comment. */
const plainInLine = /[^\n# ][^\n#]*(?<! )/y;
/** Text without what has a meaning within braces and brackets. */
const plainInBraces = /[^\n:#,[\]{} ](?:[^\n:#,[\]{}]|:(?=[^\s:#,[\]{}]))*(?<! )/y;

const plainScalar =
  /^(?!\uFEFF)[\p{L}\p{Cf}0-9/_](?:[^:#\p{Cc}\p{Cs}\uFEFF\u2028\u2029]|:(?=[^\s:#\p{Cc}\p{Cs}\uFEFF]))*$/u;
const keyword = /^(?:null|true|false)$/i;
/** Without a sign or an exponent, and few enough digits to be exact. */
const decimal = /^(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?$/;

/** More nesting than any configuration has. */
const deepest = 16;

/** Thrown for input that is not of the simple form. */
class NotSimple extends Error {}

/**
 * Reads YAML of the usual form: block mappings and lists with one member per line; texts, and values in braces or brackets, on one
 * line; or JSON without escapes. The parser takes ten to twenty times as long and a hundred times the memory, because it records
 * positions, which only problems need. Undefined for any other text, valid or not, which the parser must read.
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

/** Whether a text may be written without quotes, and is then read as itself. */
export function isPlainScalar(text: string): boolean {
  return plainScalar.test(text) && !text.endsWith(' ') && !keyword.test(text) && Number.isNaN(Number(text));
}

/** The value of a text without quotes, in the core schema of YAML 1.2. @throws NotSimple */
function plainValue(text: string): unknown {
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (decimal.test(text)) return Number(text);
  if (!isPlainScalar(text)) throw new NotSimple();
  return text;
}

/** The beginning of a line that is neither blank nor a comment. */
interface Line {
  /** The column of the name, or of an item that is no mapping in lines. */
  readonly column: number;
  readonly isItem: boolean;
  /** Undefined: an item that is no mapping in lines. */
  readonly name: string | undefined;
}

class SimpleReader {
  readonly #text: string;
  readonly #isJson: boolean;
  #offset = 0;
  /** The line to be read next, of which the beginning has been read; undefined at the end. */
  #line: Line | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#isJson = text.startsWith('{');
  }

  /** @throws NotSimple */
  read(): unknown {
    if (this.#isJson) {
      const value = this.#value(plainInBraces, 0);
      this.#match(spacesAndNewlines);
      if (this.#offset < this.#text.length) throw new NotSimple();
      return value;
    }
    this.#advance();
    if (this.#line?.column !== 0) throw new NotSimple();
    const members = this.#members(0);
    if (this.#line !== undefined) throw new NotSimple();
    return members;
  }

  #advance(): void {
    while (this.#match(blankLine) !== null) continue;
    this.#line = undefined;
    if (this.#offset === this.#text.length) return;
    const [, indent = '', dash, name] = this.#match(head) ?? [];
    if (dash === undefined && name === undefined) throw new NotSimple();
    this.#line = { column: indent.length + (dash?.length ?? 0), isItem: dash !== undefined, name };
  }

  /** The members whose names begin at this column; the first may begin an item. */
  #members(column: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    let isFirst = true;
    for (let line = this.#line; line?.column === column && (isFirst || !line.isItem); line = this.#line) {
      isFirst = false;
      const { name } = line;
      if (name === undefined || Object.hasOwn(members, name)) throw new NotSimple();
      members[name] = this.#restOfLine() ?? this.#nested(column);
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
      const item = line.name === undefined ? this.#restOfLine() : this.#members(column);
      if (item === undefined) throw new NotSimple();
      items.push(item);
    }
    return items;
  }

  /** The value in the rest of the line; undefined if there is none. */
  #restOfLine(): unknown {
    let value: unknown;
    if (this.#match(lineEnd) === null) {
      this.#match(spaces);
      value = this.#value(plainInLine, 0);
      if (this.#match(lineEnd) === null) throw new NotSimple();
    }
    this.#advance();
    return value;
  }

  #value(plain: RegExp, depth: number): unknown {
    if (depth > deepest) throw new NotSimple();
    if (this.#takes('{')) return this.#membersInBraces(depth);
    if (this.#takes('[')) return this.#itemsInBrackets(depth);
    const [, double, single] = this.#match(quoted) ?? [];
    return double ?? single?.replaceAll("''", "'") ?? plainValue(this.#match(plain)?.[0] ?? '');
  }

  #membersInBraces(depth: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    this.#skipSpace();
    while (!this.#takes('}')) {
      const [, plain, inQuotes] = this.#match(nameInBraces) ?? [];
      const name = plain ?? inQuotes;
      if (name === undefined || Object.hasOwn(members, name)) throw new NotSimple();
      this.#skipSpace();
      members[name] = this.#value(plainInBraces, depth + 1);
      this.#separator('}');
    }
    return members;
  }

  #itemsInBrackets(depth: number): readonly unknown[] {
    const items: unknown[] = [];
    this.#skipSpace();
    while (!this.#takes(']')) {
      items.push(this.#value(plainInBraces, depth + 1));
      this.#separator(']');
    }
    return items;
  }

  /** Takes the comma before the next value, unless the closing bracket follows. */
  #separator(closing: string): void {
    this.#skipSpace();
    if (this.#text[this.#offset] === closing) return;
    if (!this.#takes(',')) throw new NotSimple();
    this.#skipSpace();
  }

  #skipSpace(): void {
    this.#match(this.#isJson ? spacesAndNewlines : spaces);
  }

  #takes(character: string): boolean {
    if (this.#text[this.#offset] !== character) return false;
    this.#offset += 1;
    return true;
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#offset;
    const match = pattern.exec(this.#text);
    if (match !== null) this.#offset = pattern.lastIndex;
    return match;
  }
}
