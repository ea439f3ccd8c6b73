import { expect, test } from 'vitest';
import { maxPerTurn, ReadPace, smallPiece } from '../../src/http1/read-pace.ts';

/** How often, and why, a client is suspended if it is resumed at once each time. */
function restsOf(pieces: number, length: number) {
  const rests = { bytes: 0, smallPieces: 0, heldUp: 0 };
  const pace: ReadPace = new ReadPace({
    onSuspend: (resume, reason) => {
      rests[reason] += 1;
      queueMicrotask(resume);
    },
    onPace: () => {},
  });
  return (async () => {
    for (let i = 0; i < pieces; i += 1) {
      pace.count(length);
      await Promise.resolve();
    }
    return rests;
  })();
}

test.each([
  ['long ones, by bytes', 400, maxPerTurn / 4, { bytes: 100, smallPieces: 0, heldUp: 0 }],
  ['small ones, by their number', 1_000, smallPiece - 1, { bytes: 0, smallPieces: 10, heldUp: 0 }],
  ['others, by bytes', 1_024, smallPiece, { bytes: 4, smallPieces: 0, heldUp: 0 }],
])('a client is suspended after the same number of pieces each time: %s', async (_, pieces, length, rests) => {
  expect(await restsOf(pieces, length)).toEqual(rests);
});
