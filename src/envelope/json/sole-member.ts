import { continueWith } from '../../promises.ts';
import { backslash, isWhiteSpace, quote } from './json.ts';
import { inSlices } from '../../slices.ts';
import { unescaped, unescapedName } from './unescape.ts';

/**
 * The content of `data` if `body` is a JSON object whose only member is `data`, a string; otherwise undefined. Unlike JSON.parse, this
 * function does not overlook a duplicate member. The escapes that a ciphertext may have are resolved.
 *
 * Only the shape is checked. If the string contains a raw control character or bytes that are not UTF-8, a result may be returned even
 * though the body is not JSON.
 */
export function readDataMember(body: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
  const reader = new SoleMemberReader();
  const read = inSlices(body.length, (from, to) => reader.read(body, from, to));
  return continueWith(read, (): Buffer | undefined | Promise<Buffer | undefined> => {
    const { name, value } = reader;
    if (!reader.isWhole || unescapedName(body.subarray(name.from, name.to)) !== 'data') return undefined;
    const content = body.subarray(value.from, value.to);
    return value.hasEscapes ? unescaped(content) : content;
  });
}

/** The position of a string, without its quotes. */
interface QuotedString {
  from: number;
  to: number;
  hasEscapes: boolean;
}

/** The tokens of an object with one member, in order. */
const order = ['{', 'name', ':', 'value', '}', 'end'] as const;

/** Finds the name and the value in an object with one member whose value is a string. */
class SoleMemberReader {
  readonly name: QuotedString = { from: 0, to: 0, hasEscapes: false };
  readonly value: QuotedString = { from: 0, to: 0, hasEscapes: false };
  /** How many tokens have been read. */
  #tokens = 0;
  #string: QuotedString | undefined;
  #escaped = false;

  get isWhole(): boolean {
    return order[this.#tokens] === 'end';
  }

  /** Reads the next bytes. @returns false if the bytes cannot belong to such an object */
  read(bytes: Buffer, from: number, to: number): boolean {
    let at = from;
    while (at < to) {
      if (this.#string !== undefined) {
        at = this.#inString(bytes, at, to, this.#string);
      } else {
        const byte = bytes[at] as number;
        if (!isWhiteSpace(byte) && !this.#token(byte, at)) return false;
        at += 1;
      }
    }
    return true;
  }

  #token(byte: number, at: number): boolean {
    const expected = order[this.#tokens];
    if (expected === 'name' || expected === 'value') {
      if (byte !== quote) return this.#isOther();
      this.#string = this[expected];
      this.#string.from = at + 1;
      return true;
    }
    if (byte !== expected?.charCodeAt(0) || expected === 'end') return this.#isOther();
    this.#tokens += 1;
    return true;
  }

  #isOther(): false {
    this.#tokens = 0;
    return false;
  }

  /** @returns the position after the closing quote, or `to` */
  #inString(bytes: Buffer, from: number, to: number, string: QuotedString): number {
    const end = this.#escaped ? -1 : bytes.subarray(from, to).indexOf(quote);
    // If there are no escapes, as in a ciphertext, two built-in searches find the end much faster than a loop over the bytes.
    if (end !== -1 && !bytes.subarray(from, from + end).includes(backslash)) return this.#endString(from + end, string);
    let escaped = this.#escaped;
    for (let at = from; at < to; at += 1) {
      const byte = bytes[at];
      if (escaped) {
        escaped = false;
      } else if (byte === backslash) {
        escaped = true;
        string.hasEscapes = true;
      } else if (byte === quote) {
        return this.#endString(at, string);
      }
    }
    this.#escaped = escaped;
    return to;
  }

  /** @param at the position of the closing quote */
  #endString(at: number, string: QuotedString): number {
    string.to = at;
    this.#string = undefined;
    this.#tokens += 1;
    this.#escaped = false;
    return at + 1;
  }
}
