import { createHash } from 'node:crypto';
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeFileSync } from 'node:fs';
import { beginning, hashOf, tiesOf } from '../../audit/chain.ts';
import type { TrailEnd } from '../chained-events.ts';
import type { TrailState } from '../store.ts';
import { copyRights } from './replace.ts';
import { cryptography } from '../../cryptography.ts';

const newline = 10;

/** Bytes that are read first from the end; most trails need no more. */
const firstRead = 1 << 16;

/** The end of a trail's file. */
interface FileEnd extends TrailEnd {
  /** What the version before wrote, and nothing is chained to yet: the number of lines, and SHA-256 of the file. */
  readonly older: { readonly events: number; readonly sha256: string } | undefined;
}

/** The end of a trail. An incomplete last line is left out. @param seen a position whose hash is wanted */
export function stateOf(file: number, size: number, seen: number): TrailState {
  const { position, hash, chained } = endOf(file, size);
  const last = { position, hash };
  const isSigned = chained !== undefined && tiesOf(chained)?.sig !== undefined;
  for (let length = Math.min(firstRead, size); ; length = Math.min(length * 4, size)) {
    const lines = splitLines(read(file, size - length, length)).slice(length === size ? 0 : 1);
    const line = lines.at(seen - position - 1);
    const isReached = lines.length >= position - seen + 1;
    if (isReached || length === size) {
      return {
        last,
        isSigned,
        seenHash: isReached && seen <= position && line !== undefined ? hashOf(line) : undefined,
      };
    }
  }
}

/** The end of a trail, whose last line is complete. Reads backwards to the last line that is chained. */
export function endOf(file: number, size: number): FileEnd {
  for (let length = Math.min(firstRead, size); ; length = Math.min(length * 4, size)) {
    const data = read(file, size - length, length);
    // Behind each line there is a newline. The first line may be cut off unless the whole file was read.
    const lines = splitLines(data).slice(length === size ? 0 : 1);
    const last = lines.findLastIndex((line) => tiesOf(line) !== undefined);
    const chained = lines[last];
    const position = chained && tiesOf(chained)?.position;
    if (position === undefined && length < size) continue;
    const hash = hashOf(lines.at(-1) ?? Buffer.alloc(0));
    if (position !== undefined)
      return { position: position + lines.length - 1 - last, hash, chained, older: undefined };
    if (lines.length === 0) return { ...beginning, chained, older: undefined };
    const older = {
      events: lines.length,
      sha256: createHash(cryptography.digest.algorithm).update(data).digest('hex'),
    };
    return { position: lines.length, hash, chained, older };
  }
}

/**
 * Moves an incomplete last line, as a crash leaves it, to the end of another file.
 *
 * @param model whose mode and owner that file gets
 */
export function setTornLineAside(file: number, to: string, model: string): void {
  const { size } = fstatSync(file);
  let start = size;
  let torn: Buffer = Buffer.alloc(0);
  for (let length = 1; start > 0; length = firstRead) {
    const from = Math.max(0, start - length);
    const data = read(file, from, start - from);
    const end = data.lastIndexOf(newline);
    torn = Buffer.concat([data.subarray(end + 1), torn]);
    start = from;
    if (end !== -1) break;
  }
  if (torn.length === 0) return;
  const aside = openSync(to, 'a', 0o600);
  try {
    copyRights(model, aside);
    writeFileSync(aside, `${torn.toString()}\n`);
    fsyncSync(aside);
  } finally {
    closeSync(aside);
  }
  ftruncateSync(file, size - torn.length);
  fsyncSync(file);
}

function splitLines(data: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = data.indexOf(newline); end !== -1; end = data.indexOf(newline, start)) {
    lines.push(data.subarray(start, end));
    start = end + 1;
  }
  return lines;
}

function read(file: number, position: number, length: number): Buffer {
  const data = Buffer.alloc(length);
  // A regular file is read whole, up to its end.
  readSync(file, data, 0, length, position);
  return data;
}
