import { NotSimple, scalarOf, withoutSpaces } from './simple-scalar.ts';

/** More nesting than any configuration has. */
const deepest = 16;

const space = /[ \n]*/y;
const plainName = /([A-Za-z][A-Za-z0-9]{0,99}): +/y;
const quotedName = /"([A-Za-z][A-Za-z0-9]{0,99})":[ \n]*/y;
const quoted = /"[^"\\\n]*"|'[^'\n]*'/y;
/** Text without what has a meaning within braces and brackets. */
const plain = /[^\n:#,[\]{}"'](?:[^\n:#,[\]{}]|:(?=[^\s:#,[\]{}]))*/y;

/** A value in braces or brackets, and the offset behind it. @throws NotSimple */
export function readFlow(text: string, offset: number): { readonly value: unknown; readonly end: number } {
  const reader = new FlowReader(text, offset);
  const value = reader.value(0);
  return { value, end: reader.offset };
}

class FlowReader {
  readonly #text: string;
  offset: number;

  constructor(text: string, offset: number) {
    this.#text = text;
    this.offset = offset;
  }

  value(depth: number): unknown {
    if (depth > deepest) throw new NotSimple();
    if (this.#takes('{')) return this.#members(depth);
    if (this.#takes('[')) return this.#items(depth);
    const [written] = this.#match(quoted) ?? this.#match(plain) ?? [];
    if (written === undefined) throw new NotSimple();
    return scalarOf(withoutSpaces(written));
  }

  #members(depth: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    this.#match(space);
    if (this.#takes('}')) return members;
    for (;;) {
      const name = (this.#match(plainName) ?? this.#match(quotedName))?.[1];
      if (name === undefined || Object.hasOwn(members, name)) throw new NotSimple();
      members[name] = this.value(depth + 1);
      if (this.#ends('}')) return members;
    }
  }

  #items(depth: number): readonly unknown[] {
    const items: unknown[] = [];
    this.#match(space);
    if (this.#takes(']')) return items;
    for (;;) {
      items.push(this.value(depth + 1));
      if (this.#ends(']')) return items;
    }
  }

  /** Whether the collection ends here; otherwise another value follows. */
  #ends(bracket: string): boolean {
    this.#match(space);
    if (this.#takes(bracket)) return true;
    if (!this.#takes(',')) throw new NotSimple();
    this.#match(space);
    return false;
  }

  #takes(character: string): boolean {
    if (this.#text[this.offset] !== character) return false;
    this.offset += 1;
    return true;
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.offset;
    const match = pattern.exec(this.#text);
    if (match !== null) this.offset = pattern.lastIndex;
    return match;
  }
}
