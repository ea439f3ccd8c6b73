import { createReadStream } from 'node:fs';

/** Maximum number of characters in a line, or in a CSV record of several lines. This is enough for 5,000 keys with the longest names. */
export const maxLineLength = 4_194_304;

/** The problem that is reported for a longer line or record. */
export const tooLong = 'longer than 4 MiB';

/**
 * The lines of a text file, read on demand. A line that is longer than `maxLineLength` is not kept in memory and yields undefined. A byte
 * order mark is left out.
 *
 * @throws the file system's error; TypeError if the file is not UTF-8
 */
export async function* readTextLines(path: string): AsyncIterable<string | undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  // The parts of the current line. They are joined only once, so that a long line takes linear time.
  let parts: string[] = [];
  let length = 0;
  const add = (part: string): void => {
    length += part.length;
    if (length > maxLineLength + 1) parts = [];
    else parts.push(part);
  };
  const end = (): string | undefined => {
    const line = parts.join('').replace(/\r$/, '');
    const isTooLong = length > maxLineLength + 1 || line.length > maxLineLength;
    parts = [];
    length = 0;
    return isTooLong ? undefined : line;
  };
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    const [first = '', ...others] = decoder.decode(chunk, { stream: true }).split('\n');
    add(first);
    for (const part of others) {
      yield end();
      add(part);
    }
  }
  add(decoder.decode());
  if (length > 0) yield end();
}
