import { readSync } from 'node:fs';

/** A line of a trail as it is stored. */
export interface Line {
  /** The position of the line, as a string if a number may not hold it. Undefined: the line is not in the trail yet. */
  readonly position?: number | string | undefined;
  /** Without the newline. */
  readonly bytes: Buffer;
  /** Set for what follows the last newline, as after a crash: it is not a line. */
  readonly isTorn?: true;
}

/** The longest line of a trail, in bytes. */
const longest = 1 << 20;

/** Bytes that are read at once from the end of a file. */
const chunk = 1 << 16;

// In Latin-1, strings keep every byte.
const encoding = 'latin1';

/** The lines of a stream. Memory stays bounded: a line that is longer than any writer makes is cut off. */
export async function* readLines(stream: AsyncIterable<Buffer>): AsyncIterable<Line & { readonly position: number }> {
  let position = 1;
  let rest = '';
  for await (const piece of stream) {
    const lines = (rest + piece.toString(encoding)).split('\n');
    rest = lines.pop()?.slice(0, longest) ?? '';
    for (const line of lines) yield { position: position++, bytes: Buffer.from(line, encoding) };
  }
  if (rest !== '') yield { position, bytes: Buffer.from(rest, encoding), isTorn: true };
}

/**
 * What newlines separate in an open file, from its end: first what follows the last newline, then the lines, the last one first.
 *
 * @param size the length of the part to be read, from the beginning of the file: others may append to the file meanwhile
 */
export function* fromEnd(file: number, size: number): Generator<Buffer, void> {
  let first = '';
  for (let from = size; from > 0;) {
    const read = Buffer.alloc(Math.min(from, chunk));
    from -= read.length;
    // A regular file returns all the bytes asked for, up to its end.
    readSync(file, read, 0, read.length, from);
    const lines = (read.toString(encoding) + first).split('\n');
    first = lines.shift() ?? '';
    for (const line of lines.toReversed()) yield Buffer.from(line, encoding);
  }
  yield Buffer.from(first, encoding);
}
