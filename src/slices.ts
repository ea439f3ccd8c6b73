/**
 * How many bytes are processed in one turn of the event loop. Each step of opening an envelope takes less than a millisecond for this many
 * bytes.
 */
export const sliceLength = 65_536;

/**
 * Splits `length` bytes into slices and calls `work` for each until it returns false. The first slice is processed now, and each further
 * slice in its own turn of the event loop, so that other requests are served in between.
 *
 * @param work called with the position of a slice's first byte and the position after its last byte; must not throw
 * @returns whether all slices were processed; a promise only if there are several slices
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
