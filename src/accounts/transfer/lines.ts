import { createReadStream } from 'node:fs';

/**
 * The lines of a text file, read as they are asked for. A byte order mark is left out.
 *
 * @param told how many bytes were read so far
 * @throws the file system's error; TypeError where the file is not UTF-8
 */
export async function* linesOf(path: string, told: (bytes: number) => void): AsyncIterable<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let bytes = 0;
  let rest = '';
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    told(bytes);
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/);
    rest = lines.pop() ?? '';
    yield* lines;
  }
  rest += decoder.decode();
  if (rest !== '') yield rest;
}
