/**
 * The grammar of JSON (RFC 8259) in UTF-8, as a table. For a state and the next byte, the table contains the next state and the byte's
 * effect on the nesting. A state does not say which container it is in. Where the grammar depends on the container, the byte asserts the
 * kind of container. For example, `]` asserts an array, and a colon after a string that follows a comma asserts an object.
 */

/** The effects of a byte on the nesting, as bits of `JsonTable.effects`. The reader does arithmetic with these bits. */
const effect = {
  /** With `assertsKind`, this bit means that the innermost container must be an array; without this bit, it must be an object. */
  array: 1,
  /** The byte must be inside a container. */
  inContainer: 2,
  assertsKind: 4,
  closes: 16,
  opensArray: 32,
  opens: 64,
} as const;

const inArray = effect.assertsKind | effect.array;
const inObject = effect.assertsKind;

export interface JsonTable {
  /** The next state, at the index state + byte. A state is the index of its row of 256 entries. */
  readonly next: Uint16Array;
  readonly effects: Uint8Array;
  /** At the index of a state: 1 if a document may end in the state while no container is open. */
  readonly mayEnd: Uint8Array;
  readonly start: number;
}

/** A state in which every byte is a fault and leads to the same state again. */
const fault = 'fault';

const space = ' \t\n\r';
const digits = '0123456789';
const hexDigits = `${digits}abcdefABCDEF`;
const unescaped = bytes([0x20, 0x21], [0x23, 0x5b], [0x5d, 0x7f]);
const continuation = bytes([0x80, 0xbf]);

/** All bytes in these ranges, as characters. */
function bytes(...ranges: readonly (readonly [number, number])[]): string {
  return ranges
    .flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => String.fromCharCode(first + i)))
    .join('');
}

class Grammar {
  readonly #states = new Map<string, number>([[fault, 0]]);
  /** Indexed by byte and state: the next state in the upper byte, the effects in the lower byte. */
  readonly #cells = Array.from({ length: 256 }, (): number[] => []);
  readonly #ends: number[] = [];

  /** In state `from`, each of `characters` leads to `to`. */
  on(from: string, characters: string, to: string, effects = 0): void {
    const [row, next] = [this.#state(from), this.#state(to)];
    for (const character of characters) (this.#cells[character.charCodeAt(0)] ?? [])[row] = (next << 8) | effects;
  }

  mayEnd(state: string): void {
    this.#ends.push(this.#state(state));
  }

  table(start: string): JsonTable {
    const size = this.#states.size * 256;
    const [next, effects, mayEnd] = [new Uint16Array(size), new Uint8Array(size), new Uint8Array(size)];
    for (const [byte, cells] of this.#cells.entries()) {
      for (const [row, cell = 0] of cells.entries()) {
        next[row * 256 + byte] = (cell >> 8) * 256;
        effects[row * 256 + byte] = cell & 0xff;
      }
    }
    for (const state of this.#ends) mayEnd[state * 256] = 1;
    return { next, effects, mayEnd, start: this.#state(start) * 256 };
  }

  #state(name: string): number {
    const number = this.#states.get(name) ?? this.#states.size;
    this.#states.set(name, number);
    return number;
  }
}

export function jsonTable(): JsonTable {
  const grammar = new Grammar();
  for (const state of ['value', 'item', 'name', 'next', 'colon', 'next colon', 'end']) grammar.on(state, space, state);

  // A value begins in one of three states: `value` at the start of the document or after a colon, `item` after `[`, `next` after a comma.
  valueIn('value', 0, 'string');
  valueIn('item', 0, 'string');
  grammar.on('item', ']', 'end', inArray | effect.closes);
  // A string after a comma is either an array item or a name. What follows the string tells which.
  valueIn('next', inArray, 'next string');
  grammar.on('name', '"', 'name string');
  grammar.on('name', '}', 'end', inObject | effect.closes);

  stringIn('string', 'end');
  stringIn('name string', 'colon');
  stringIn('next string', 'next colon');
  grammar.on('colon', ':', 'value');
  grammar.on('next colon', ':', 'value', inObject);
  grammar.on('next colon', ',', 'next', inArray);
  grammar.on('next colon', ']', 'end', inArray | effect.closes);

  for (const word of ['true', 'false', 'null']) {
    for (let i = 1; i < word.length; i += 1) {
      grammar.on(word.slice(0, i), word.charAt(i), i + 1 === word.length ? 'end' : word.slice(0, i + 1));
    }
  }

  grammar.on('-', '0', 'zero');
  grammar.on('-', '123456789', 'integer');
  grammar.on('integer', digits, 'integer');
  for (const state of ['zero', 'integer']) grammar.on(state, '.', '.');
  for (const state of ['.', 'fraction']) grammar.on(state, digits, 'fraction');
  for (const state of ['zero', 'integer', 'fraction']) grammar.on(state, 'eE', 'e');
  grammar.on('e', '+-', 'sign');
  for (const state of ['e', 'sign', 'exponent']) grammar.on(state, digits, 'exponent');

  for (const state of ['end', 'zero', 'integer', 'fraction', 'exponent']) {
    grammar.mayEnd(state);
    grammar.on(state, space, 'end');
    grammar.on(state, ',', 'next', effect.inContainer);
    grammar.on(state, ']', 'end', inArray | effect.closes);
    grammar.on(state, '}', 'end', inObject | effect.closes);
  }
  return grammar.table('value');

  function valueIn(state: string, asserted: number, string: string): void {
    grammar.on(state, '"', string);
    grammar.on(state, '{', 'name', asserted | effect.opens);
    grammar.on(state, '[', 'item', asserted | effect.opens | effect.opensArray);
    grammar.on(state, '-', '-', asserted);
    grammar.on(state, '0', 'zero', asserted);
    grammar.on(state, '123456789', 'integer', asserted);
    for (const first of 'tfn') grammar.on(state, first, first, asserted);
  }

  /** The states within a string, including the well-formed sequences of UTF-8 (Unicode, table 3-7). */
  function stringIn(inside: string, after: string): void {
    grammar.on(inside, '"', after);
    grammar.on(inside, unescaped, inside);
    grammar.on(inside, '\\', `${inside} \\`);
    grammar.on(`${inside} \\`, '"\\/bfnrt', inside);
    grammar.on(`${inside} \\`, 'u', `${inside} 4`);
    for (const left of [4, 3, 2, 1]) {
      grammar.on(`${inside} ${left}`, hexDigits, left === 1 ? inside : `${inside} ${left - 1}`);
    }
    const sequences: readonly (readonly [lead: string, second: string, more: 0 | 1 | 2])[] = [
      [bytes([0xc2, 0xdf]), continuation, 0],
      [bytes([0xe0, 0xe0]), bytes([0xa0, 0xbf]), 1],
      [bytes([0xe1, 0xec], [0xee, 0xef]), continuation, 1],
      [bytes([0xed, 0xed]), bytes([0x80, 0x9f]), 1],
      [bytes([0xf0, 0xf0]), bytes([0x90, 0xbf]), 2],
      [bytes([0xf1, 0xf3]), continuation, 2],
      [bytes([0xf4, 0xf4]), bytes([0x80, 0x8f]), 2],
    ];
    const then = [inside, `${inside} continuation`, `${inside} two continuations`] as const;
    grammar.on(then[1], continuation, then[0]);
    grammar.on(then[2], continuation, then[1]);
    for (const [lead, second, more] of sequences) {
      const state = `${inside} after ${lead}`;
      grammar.on(inside, lead, state);
      grammar.on(state, second, then[more]);
    }
  }
}
