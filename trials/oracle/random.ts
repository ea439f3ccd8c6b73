import { createCipheriv, createHash, type Cipheriv } from 'node:crypto';

/** Random numbers that repeat with their seed. They are the key stream of AES in counter mode. */
export class Random {
  readonly #stream: Cipheriv;
  readonly #zeros = Buffer.alloc(65_536);
  #block: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(seed: number) {
    const key = createHash('sha256').update(String(seed)).digest();
    this.#stream = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  }

  /** `count` random bytes, which must be fewer than 65,536. */
  bytes(count: number): Buffer {
    if (this.#at + count > this.#block.length) {
      this.#block = this.#stream.update(this.#zeros);
      this.#at = 0;
    }
    this.#at += count;
    return this.#block.subarray(this.#at - count, this.#at);
  }

  /** A whole number from 0 to `limit` - 1. `limit` must be far below 2^32. */
  below(limit: number): number {
    return this.bytes(4).readUInt32LE() % limit;
  }

  /** Shuffles `items` in such a way that every order is equally likely (Fisher and Yates). */
  shuffle<T>(items: T[]): T[] {
    for (let last = items.length - 1; last > 0; last -= 1) {
      const other = this.below(last + 1);
      [items[last], items[other]] = [items[other] as T, items[last] as T];
    }
    return items;
  }
}
