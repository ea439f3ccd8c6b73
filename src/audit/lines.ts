import { fstatSync, readSync } from 'node:fs';

const newline = 10;

/** The longest line of a trail, in bytes. */
const longest = 1 << 20;

/** Bytes that are read at once from the end of a file. */
const chunk = 1 << 16;

/** Called with what stands behind the last newline, as a crash leaves it: it is not a line. */
export type Torn = (rest: Buffer) => void;

/** The lines of a stream, without their newlines. Memory stays bounded: a longer line than any writer makes is cut off. */
export async function* linesOf(stream: AsyncIterable<Buffer>, torn: Torn): AsyncIterable<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    const data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = data.indexOf(newline); end !== -1; end = data.indexOf(newline, start)) {
      yield data.subarray(start, end);
      start = end + 1;
    }
    rest = data.subarray(start, start + longest);
  }
  if (rest.length > 0) torn(rest);
}

/**
 * The lines of an open file from the last one to the first, without their newlines.
 *
 * @param size of the part to be read, from the beginning of the file: others may append to it meanwhile
 */
export function* linesFromEnd(file: number, torn: Torn, size = fstatSync(file).size): Iterable<Buffer> {
  const pieces = piecesFromEnd(file, size);
  const { value: rest } = pieces.next();
  if (rest !== undefined && rest.length > 0) torn(rest);
  yield* pieces;
}

/** What newlines separate, from the end: first what stands behind the last one. */
function* piecesFromEnd(file: number, size: number): Generator<Buffer, void> {
  let rest: Buffer = Buffer.alloc(0);
  for (let from = size; from > 0;) {
    const length = Math.min(from, chunk);
    from -= length;
    const read = Buffer.alloc(length);
    // A regular file is read whole, up to its end.
    readSync(file, read, 0, length, from);
    rest = Buffer.concat([read, rest]);
    for (let at = rest.lastIndexOf(newline); at !== -1; at = rest.lastIndexOf(newline)) {
      yield rest.subarray(at + 1);
      rest = rest.subarray(0, at);
    }
  }
  yield rest;
}
