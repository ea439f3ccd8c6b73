import { jsonTable } from './json-grammar.ts';
import { LevelStack } from './level-stack.ts';

const { next, effects, mayEnd, start } = jsonTable();

/**
 * If `#levels` is at least `full`, its bits have no room for the levels of two more bytes. If `#levels` is below `nearlyEmpty` and levels
 * were put aside, two more bytes may close more levels than `#levels` holds.
 */
const full = 2 ** 29;
const nearlyEmpty = 4;

/**
 * Checks a JSON document (RFC 8259) in UTF-8 without a byte order mark, in pieces of any length. It builds nothing, and holds only one bit
 * for each level of nesting.
 *
 * Every byte takes the same steps without a branch, whether it is in a string or between tokens, before a fault or after it. Otherwise, the
 * response time would tell how much of a decrypted text is JSON.
 */
export class JsonReader {
  #state = start;
  /** A 1, then a bit for each level of nesting (1 for an array), the innermost level last. */
  #levels = 1;
  /** The outer levels, if there are more levels than fit into `#levels`. */
  #outer: LevelStack | undefined;
  /** The lowest bit is 1 if an assertion about the innermost container failed. The other bits mean nothing. */
  #mismatch = 0;
  /** Negative if a byte that must be inside a container occurred outside of any container. */
  #missing = 0;

  /** Reads the bytes from `from` up to, but not including, `to`. */
  read(bytes: Uint8Array, from: number, to: number): void {
    let state = this.#state;
    let levels = this.#levels;
    let mismatch = this.#mismatch;
    let missing = this.#missing;
    let floor = this.#outer === undefined ? 0 : nearlyEmpty;
    let at = from;
    // Reading two bytes in each iteration takes a fifth less time.
    for (; at + 1 < to; at += 2) {
      const first = state + (bytes[at] as number);
      const second = (next[first] as number) + (bytes[at + 1] as number);
      state = next[second] as number;
      const one = effects[first] as number;
      mismatch |= detectMismatch(levels, one);
      missing |= levels - (one & 2);
      levels = levelsAfter(levels, one);
      const two = effects[second] as number;
      mismatch |= detectMismatch(levels, two);
      missing |= levels - (two & 2);
      levels = levelsAfter(levels, two);
      if (levels >= full || levels < floor) {
        levels = this.#shift(levels);
        floor = nearlyEmpty;
      }
    }
    if (at < to) {
      const last = state + (bytes[at] as number);
      state = next[last] as number;
      const one = effects[last] as number;
      mismatch |= detectMismatch(levels, one);
      missing |= levels - (one & 2);
      levels = levelsAfter(levels, one);
      if (levels >= full || levels < floor) levels = this.#shift(levels);
    }
    this.#state = state;
    this.#levels = levels;
    this.#mismatch = mismatch;
    this.#missing = missing;
  }

  /** 1 if the bytes so far are a whole document, otherwise 0. The result is computed without a branch. */
  get accepts(): number {
    const faults = (this.#levels ^ 1) | (this.#mismatch & 1) | (this.#missing >>> 31);
    // `faults` is not negative, so `faults - 1` is negative only if `faults` is 0.
    return (mayEnd[this.#state] as number) & ((faults - 1) >>> 31);
  }

  /** Whether no JSON document can begin with the bytes so far. */
  get failed(): boolean {
    return this.#state === 0 || (this.#mismatch & 1) === 1 || this.#missing < 0;
  }

  /** Puts outer levels aside, or takes them back. */
  #shift(levels: number): number {
    this.#outer ??= new LevelStack();
    return levels >= full ? this.#outer.putAside(levels) : this.#outer.takeBack(levels);
  }
}

/** The lowest bit is 1 if a byte asserts a different kind of container from the innermost one. */
function detectMismatch(levels: number, effect: number): number {
  return (levels ^ effect) & (effect >>> 2);
}

/** The levels after a byte that opens a container, closes one, or neither. */
function levelsAfter(levels: number, effect: number): number {
  return ((levels << (effect >>> 6)) >>> ((effect >>> 4) & 1)) | ((effect >>> 5) & 1);
}
