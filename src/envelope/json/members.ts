import { continueWith } from '../../promises.ts';
import { backslash, isWhiteSpace, quote } from './json.ts';
import { inSlices } from '../../slices.ts';
import { unescaped, unescapedName } from './unescape.ts';

/** Called for each member of the outermost object. `name` is undefined if it is longer than any name of interest. */
type Visit = (name: string | undefined, valueAt: number) => void;

/** Visits each member of a JSON document that is an object. Reads the document in pieces of any length, without parsing it into objects. */
export class MemberReader {
  readonly #visit: Visit;
  #depth = 0;
  #inString = false;
  #escaped = false;
  /** The position of the last string, without its quotes. */
  #from = 0;
  #to = 0;

  constructor(visit: Visit) {
    this.#visit = visit;
  }

  /** Reads the bytes from `from` up to, but not including, `to` of a document that satisfies `isJson`. */
  read(json: Buffer, from: number, to: number): void {
    for (let at = from; at < to; at += 1) {
      const byte = json[at] as number;
      if (this.#inString) {
        if (byte === quote && !this.#escaped) {
          this.#inString = false;
          this.#to = at;
        }
        this.#escaped = byte === backslash && !this.#escaped;
      } else if (byte === quote) {
        this.#inString = true;
        this.#from = at + 1;
      } else if (byte === 0x7b || byte === 0x5b) {
        this.#depth += 1;
      } else if (byte === 0x7d || byte === 0x5d) {
        this.#depth -= 1;
      } else if (byte === 0x3a && this.#depth === 1) {
        this.#visit(unescapedName(json.subarray(this.#from, this.#to)), at + 1);
      }
    }
  }
}

/** Where the value of the last member `name` begins in a JSON document. Undefined if the document is not an object with such a member. */
export function memberAt(json: Buffer, name: string): number | undefined {
  const finder = new MemberFinder(name);
  finder.read(json, 0, json.length);
  return finder.valueIn(json);
}

/**
 * The value of the last member `name`, without its escapes (see `unescaped`), if the value is a string; otherwise undefined. Works in slices.
 */
export function stringMember(json: Buffer, name: string): Buffer | undefined | Promise<Buffer | undefined> {
  const finder = new MemberFinder(name);
  const read = inSlices(json.length, (from, to) => finder.read(json, from, to));
  return continueWith(read, (): Buffer | undefined | Promise<Buffer | undefined> => {
    const from = finder.valueIn(json);
    if (from === undefined || json[from] !== quote) return undefined;
    return continueWith(endOfString(json, from + 1), (to) => unescaped(json.subarray(from + 1, to)));
  });
}

/** The position of the quote that ends a string. @param from the position after the quote that begins it */
function endOfString(json: Buffer, from: number): number | Promise<number> {
  let at = from;
  let escaped = false;
  const read = inSlices(json.length - from, (_from, to) => {
    for (; at < from + to; at += 1) {
      if (json[at] === quote && !escaped) return false;
      escaped = json[at] === backslash && !escaped;
    }
    return true;
  });
  return continueWith(read, () => at);
}

class MemberFinder {
  #valueAt: number | undefined;
  readonly #reader: MemberReader;

  constructor(name: string) {
    this.#reader = new MemberReader((each, valueAt) => {
      if (each === name) this.#valueAt = valueAt;
    });
  }

  read(json: Buffer, from: number, to: number): void {
    this.#reader.read(json, from, to);
  }

  valueIn(json: Buffer): number | undefined {
    return this.#valueAt === undefined ? undefined : skipWhiteSpace(json, this.#valueAt);
  }
}

/** The string that begins at `from` in a JSON document. */
export function stringAt(json: Buffer, from: number): string {
  let to = from + 1;
  for (let escaped = false; escaped || json[to] !== quote; to += 1) escaped = json[to] === backslash && !escaped;
  return JSON.parse(json.toString('utf8', from, to + 1)) as string;
}

export function skipWhiteSpace(json: Buffer, from: number): number {
  let at = from;
  while (at < json.length && isWhiteSpace(json[at] as number)) at += 1;
  return at;
}
