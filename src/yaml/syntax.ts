import { LineCounter, isAlias, isMap, isNode, isScalar, isSeq, parseDocument } from 'yaml';
import type { Document, ErrorCode } from 'yaml';
import type { MemberPath } from '../input/member-path.ts';

/** A mistake in the syntax of the text, at an offset. */
interface SyntaxProblem {
  readonly offset: number;
  readonly path: MemberPath;
  readonly message: string;
}

/** Text read as one YAML document. */
export interface ParsedYaml {
  /** The content as plain values; undefined if the text is empty or broken. */
  readonly value: unknown;
  readonly problems: readonly SyntaxProblem[];
  /** The offset of the value or the name of the member at `path` or, if there is no such member, of its parent's name. */
  findOffset(path: MemberPath, part: 'name' | 'value'): number;
  /**
   * The offsets of the lines on which the items of a block list begin, each with a dash and a value. Undefined if the member is not such a
   * list, or if the text contains anchors, to which other parts of the text may refer.
   */
  findItemLines(name: string): readonly number[] | undefined;
  /** The line and the column of an offset, both counted from 1. */
  locate(offset: number): { line: number; col: number };
}

/** The messages for syntax errors. Unlike the parser's own messages, they do not quote the text, which may be a secret. */
const messages: Partial<Record<ErrorCode, string>> = {
  BAD_DQ_ESCAPE: 'an unknown escape sequence in double quotes: double the backslash or use single quotes',
  BAD_INDENT: 'wrong indentation, or an unclosed quote, bracket or brace before it',
  BAD_SCALAR_START: 'text that begins with this character must be in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " on one line: put text that contains it in quotes',
  MISSING_CHAR: 'a quote, bracket, brace, comma or colon is missing here or before',
  MULTILINE_IMPLICIT_KEY: 'expected "name: value"',
  MULTIPLE_DOCS: 'a second document begins here: a file holds only one',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAB_AS_INDENT: 'a tab in the indentation: use spaces',
  TAG_RESOLVE_FAILED: 'a tag (!name): put text that begins with ! in quotes',
  UNEXPECTED_TOKEN: 'unexpected here: a quote, bracket, brace or comma may be missing before it',
};

/** Errors that leave the rest of the document intact, so that it can be checked further. */
const harmless: ReadonlySet<ErrorCode> = new Set(['MULTIPLE_DOCS', 'TAG_RESOLVE_FAILED']);

/** Parses YAML 1.2 (core schema): one document, no duplicate members, no tags, no merge keys. */
export function parseYaml(text: string): ParsedYaml {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
    // Duplicate names are detected below, because the parser would compare each name with all earlier ones and report only a rough
    // position.
    uniqueKeys: false,
    schema: 'core',
    resolveKnownTags: false,
    merge: false,
  });
  const errors = [...document.errors, ...document.warnings];
  const problems: SyntaxProblem[] = errors.map(({ code, pos }) => whole(messages[code] ?? 'not valid YAML', pos[0]));
  let value: unknown;
  const anchors = new Set<string>();
  if (errors.every(({ code }) => harmless.has(code))) {
    problems.push(...flaws(document.contents, anchors));
    try {
      value = document.toJS() ?? undefined;
      if (value === undefined) problems.push(whole('the file is empty'));
    } catch {
      // `toJS` throws for an alias without an anchor, which has already been reported, and for aliases of aliases that would fill the
      // memory.
      if (problems.length === 0) problems.push(whole('aliases (*name) expand to too much: write the values out'));
    }
  }
  return {
    value,
    problems,
    findOffset: (path, part) => findOffset(document, path, part),
    findItemLines: (name) => (anchors.size === 0 ? findItemLines(text, document.contents, name) : undefined),
    locate: (offset) => lines.linePos(offset),
  };
}

function whole(message: string, offset = 0): SyntaxProblem {
  return { offset, path: [], message };
}

/** Finds duplicate members of mappings, and aliases without an anchor before them. @param anchors receives the names of all anchors */
function flaws(root: unknown, anchors: Set<string>): SyntaxProblem[] {
  const found: SyntaxProblem[] = [];
  const path: (string | number)[] = [];
  visit(root);
  return found;

  function visit(node: unknown): void {
    if (isAlias(node)) {
      if (!anchors.has(node.source))
        add(node, 'an alias without its anchor before it: put text that begins with * in quotes');
      return;
    }
    if (isNode(node) && node.anchor !== undefined) anchors.add(node.anchor);
    if (isMap(node)) {
      const names = new Set<string>();
      for (const { key, value } of node.items) {
        const name = readName(key);
        path.push(name);
        if (names.has(name)) add(key, 'duplicate member');
        names.add(name);
        visit(value);
        path.pop();
      }
    } else if (isSeq(node)) {
      for (const [i, item] of node.items.entries()) {
        path.push(i);
        visit(item);
        path.pop();
      }
    }
  }

  function add(node: unknown, message: string): void {
    found.push({ offset: findStart(node) ?? 0, path: [...path], message });
  }
}

function findOffset(document: Document, path: MemberPath, part: 'name' | 'value'): number {
  let node: unknown = document.contents;
  let name = findStart(node) ?? 0;
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => readName(key) === step);
      if (pair === undefined) return name;
      name = findStart(pair.key) ?? name;
      node = pair.value;
    } else if (isSeq(node) && typeof step === 'number' && step < node.items.length) {
      node = node.items[step];
      name = findStart(node) ?? name;
    } else {
      return name;
    }
  }
  return part === 'name' ? name : (findStart(node) ?? name);
}

function findItemLines(text: string, root: unknown, name: string): readonly number[] | undefined {
  const list: unknown = isMap(root) ? root.get(name, true) : undefined;
  if (!isSeq(list) || list.flow === true || list.items.length === 0) return undefined;
  const lines = list.items.map((item) => {
    const value = findStart(item);
    if (value === undefined) return undefined;
    const start = text.lastIndexOf('\n', value - 1) + 1;
    return /^ *- +$/.test(text.slice(start, value)) ? start : undefined;
  });
  return lines.every((line) => line !== undefined) ? lines : undefined;
}

function readName(key: unknown): string {
  return isScalar(key) ? String(key.value) : String(key);
}

/** The offset of a node; undefined if the node is empty, as after `port:`. */
function findStart(node: unknown): number | undefined {
  if (!isNode(node) || node.range == null) return undefined;
  return node.range[0] < node.range[1] ? node.range[0] : undefined;
}
