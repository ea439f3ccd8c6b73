const nothing = Buffer.alloc(0);

/** Holds the beginning of text whose end has not arrived. Each byte is copied and searched once, however the text is split. */
export class HeldText {
  #held = nothing;
  #length = 0;
  /** The position after the bytes that the last call has taken. */
  next = 0;

  /** How many bytes are held. */
  get length(): number {
    return this.#length;
  }

  /** The held bytes, as a view. */
  get bytes(): Buffer {
    return this.#held.subarray(0, this.#length);
  }

  /**
   * Takes the text before `end`, and `end` itself. The beginning of text that is incomplete or too long is held.
   *
   * @param limit maximum length of the text in bytes
   * @returns undefined while the text is incomplete, false if it is too long
   */
  take(bytes: Buffer, at: number, end: string, limit: number): string | false | undefined {
    if (this.#length === 0) {
      const found = bytes.indexOf(end, at, 'latin1');
      if (found !== -1 && found - at <= limit) {
        this.next = found + end.length;
        return bytes.toString('latin1', at, found);
      }
    }
    const before = this.#length;
    this.#hold(bytes, at, limit + end.length);
    const held = this.bytes;
    const found = held.indexOf(end, Math.max(0, before - end.length + 1), 'latin1');
    if (found === -1) {
      // The bytes beyond the limit must be the beginning of `end`. Otherwise the text is too long.
      if (this.#length > limit && !end.startsWith(held.toString('latin1', limit))) return false;
      return undefined;
    }
    // The bytes after `end` were copied too, but they do not count as taken.
    this.next -= this.#length - found - end.length;
    this.clear();
    return held.toString('latin1', 0, found);
  }

  /** Releases the held bytes, so that idle connections take no memory. */
  clear(): void {
    this.#held = nothing;
    this.#length = 0;
  }

  /** Copies the rest of `bytes`, up to `maxLength` bytes in total. */
  #hold(bytes: Buffer, at: number, maxLength: number): void {
    const length = Math.min(maxLength, this.#length + bytes.length - at);
    if (length > this.#held.length) {
      // Node's pool is not used, because a few bytes of it would keep 64 KiB alive.
      const larger = Buffer.allocUnsafeSlow(Math.min(maxLength, Math.max(256, 2 * length)));
      this.#held.copy(larger, 0, 0, this.#length);
      this.#held = larger;
    }
    this.next = at + bytes.copy(this.#held, this.#length, at, at + length - this.#length);
    this.#length = length;
  }
}
