/** Bytes that are worked on in a turn of the event loop: less than a millisecond, for each step of opening an envelope. */
export const sliceLength = 65_536;

/**
 * Calls `work` for each slice of `length` bytes until it returns false: for the first one now, for each other one in a turn of
 * the event loop of its own, so that others are served in between.
 *
 * @param work with the position of the first byte of a slice and the one after its last; must not throw
 * @returns whether all slices were worked on; a promise only if there are several
 */
export function inSlices(
  length: number,
  work: (from: number, to: number) => boolean | undefined | void,
): boolean | Promise<boolean> {
  return length <= sliceLength ? work(0, length) !== false : inTurns(length, work);
}

async function inTurns(
  length: number,
  work: (from: number, to: number) => boolean | undefined | void,
): Promise<boolean> {
  for (let from = 0; from < length; from += sliceLength) {
    if (from > 0) await new Promise((resolve) => void setImmediate(resolve));
    if (work(from, Math.min(length, from + sliceLength)) === false) return false;
  }
  return true;
}
