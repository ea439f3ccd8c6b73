const newline = 10;

/** The longest line of a trail, in bytes. */
const longest = 1 << 20;

/**
 * The lines of a stream, without their newlines. Memory stays bounded: a longer line than any writer makes is cut off.
 *
 * @param torn called if the last line has no newline, as a crash leaves it; the line is left out
 */
export async function* linesOf(stream: AsyncIterable<Buffer>, torn: () => void): AsyncIterable<Buffer> {
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
  if (rest.length > 0) torn();
}
