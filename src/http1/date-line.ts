import type { EpochMs } from '../times.ts';

/** Returns a function that returns the `Date` field. All responses in the same second share one string. */
export function dateLines(clock: () => EpochMs): () => string {
  let latest = NaN;
  let line = '';
  return () => {
    const second = Math.floor(clock() / 1_000);
    if (second !== latest) {
      latest = second;
      line = `\r\nDate: ${new Date(second * 1_000).toUTCString()}`;
    }
    return line;
  };
}
