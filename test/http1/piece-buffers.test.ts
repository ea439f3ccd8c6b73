import { expect, test } from 'vitest';
import { PieceBuffers } from '../../src/http1/piece-buffers.ts';

/** Whether two copies begin at the same byte of memory. Comparing `buffer` is not enough, because short copies share Node's pool. */
function samePlace(a: Buffer, b: Buffer): boolean {
  return a.buffer === b.buffer && a.byteOffset === b.byteOffset;
}

const largest = 65_536;
const smallest = largest / 2;

test.each([
  [smallest - 1, false],
  [smallest, true],
  [largest, true],
  [largest + 1, false],
])('the memory of a copied piece of %i bytes is used again once it is released: %s', (length, isReused) => {
  const buffers = new PieceBuffers();
  const piece = Buffer.alloc(length, 'a');
  const first = buffers.copy(piece);
  const second = buffers.copy(piece);
  expect(samePlace(second, first)).toBe(false);
  piece.fill('b');
  expect(first.equals(Buffer.alloc(length, 'a'))).toBe(true);

  buffers.release(first);
  const third = buffers.copy(piece);
  expect(third.equals(piece)).toBe(true);
  expect(samePlace(third, first)).toBe(isReused);
  expect(second.equals(Buffer.alloc(length, 'a'))).toBe(true);
});

test('no more than 32 buffers are kept', () => {
  const buffers = new PieceBuffers();
  const copies = Array.from({ length: 33 }, () => buffers.copy(Buffer.alloc(largest)));
  for (const copy of copies) buffers.release(copy);
  const again = new Set(copies.map(() => buffers.copy(Buffer.alloc(largest)).buffer));
  expect(copies.filter(({ buffer }) => again.has(buffer))).toHaveLength(32);
});
