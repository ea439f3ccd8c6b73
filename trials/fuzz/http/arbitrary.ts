import * as fc from 'fast-check';

/** One of the usual values, or rarely one of the strange ones. */
export function usually<T>(weight: number, usual: readonly T[], strange: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom(...strange) },
  );
}

/** A body and the header lines that state its length. */
export type Framed = readonly [lines: readonly string[], body: string];

/** A body in chunks of the same size. */
export function chunked(body: string, size: number, extension = '', trailers = ''): string {
  let chunks = '';
  for (let at = 0; at < body.length; at += size) {
    const chunk = body.slice(at, at + size);
    chunks += `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`;
  }
  return `${chunks}0${extension}\r\n${trailers}\r\n`;
}
