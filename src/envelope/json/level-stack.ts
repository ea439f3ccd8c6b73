/** How many levels are put aside at a time. */
const group = 16;

/** How many groups a block of 4 KiB holds. */
const blockLength = 2_048;

/** The outer levels of a deeply nested document, one bit each. Grows in blocks, so that nothing is copied. */
export class LevelStack {
  readonly #blocks: Uint16Array[] = [];
  #groups = 0;

  /** @param levels a 1, then at least 16 bits @returns the same levels without the 16 bits that follow the 1 */
  putAside(levels: number): number {
    const kept = 31 - Math.clz32(levels) - group;
    if (this.#groups === this.#blocks.length * blockLength) this.#blocks.push(new Uint16Array(blockLength));
    const block = this.#blocks.at(Math.floor(this.#groups / blockLength));
    // The array's 16-bit type cuts off the leading 1.
    if (block !== undefined) block[this.#groups % blockLength] = levels >>> kept;
    this.#groups += 1;
    return (1 << kept) | (levels & ((1 << kept) - 1));
  }

  /**
   * @param levels a 1, then at most 2 bits
   * @returns the same levels with the group that was put aside last, if there is one, inserted after the 1
   */
  takeBack(levels: number): number {
    if (this.#groups === 0) return levels;
    this.#groups -= 1;
    const kept = 31 - Math.clz32(levels);
    const outer = this.#blocks.at(Math.floor(this.#groups / blockLength))?.[this.#groups % blockLength] ?? 0;
    return (1 << (kept + group)) | (outer << kept) | (levels & ((1 << kept) - 1));
  }
}
