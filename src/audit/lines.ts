import { readSync } from 'node:fs';

/** A line of a trail as it is stored. */
export interface Line {
  /** The position of the line; a string if it may be too large for a number. Undefined if the line is not in the trail yet. */
  readonly position?: number | string | undefined;
  /** Without the newline. */
  readonly bytes: Buffer;
  /** Set if these bytes follow the last newline, as after a crash, and are therefore not a complete line. */
  readonly isTorn?: true;
}

/** The longest line of a trail, in bytes. */
const longest = 1 << 20;

/** The number of bytes that are read at once from the end of a file. */
const chunk = 1 << 16;

// Latin-1 turns each byte into one character, so strings keep every byte.
const encoding = 'latin1';

/** The lines of a stream. Memory stays bounded, because a line that is longer than any real line of a trail is cut off. */
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
 * Reads an open file backwards and splits it at newlines. Yields first the bytes after the last newline, which may be empty, and then the
 * lines, starting with the last one.
 *
 * @param size how many bytes of the file to read, from its beginning. Bytes that other processes append in the meantime are ignored
 */
export function* fromEnd(file: number, size: number): Generator<Buffer, void> {
  let first = '';
  for (let from = size; from > 0;) {
    const read = Buffer.alloc(Math.min(from, chunk));
    from -= read.length;
    // Reading a regular file returns all requested bytes, up to the end of the file.
    readSync(file, read, 0, read.length, from);
    const lines = (read.toString(encoding) + first).split('\n');
    first = lines.shift() ?? '';
    for (const line of lines.toReversed()) yield Buffer.from(line, encoding);
  }
  yield Buffer.from(first, encoding);
}
