import { chunkHeadForm, trailerForm, type BodyFraming } from './grammar.ts';
import type { HeldText } from './held-text.ts';

/** Why the received bytes are not a valid body. */
export type BodyFault = 'BAD_CHUNK' | 'BAD_TRAILER' | 'HEAD_TOO_LARGE';

const maxChunkHeadSize = 256;

/** A chunk of up to this many bytes is copied byte by byte, because a built-in copy would cost more. */
const shortChunk = 64;

/** A line that is not short counts as this many lines, because reading it takes as long as reading that many short ones. */
const longLine = 20;

const [cr, lf] = [0x0d, 0x0a];

/** What comes next: data of the body or of a chunk, or a line between or after chunks. */
type State = 'data' | 'chunk_end' | 'chunk_head' | 'trailer' | 'end';

/** Reads bodies one after another. Each has a stated length or comes in chunks. */
export class BodyReader {
  readonly #text: HeldText;
  #state: State = 'end';
  #isChunked = false;
  /** Bytes of the body, or of the current chunk, that are still to come. */
  #remaining = 0;
  #trailerRoom = 0;
  #gathered: Buffer | undefined;
  #gatheredLength = 0;

  /**
   * The body's bytes from the last read. This is a view of the bytes that were read, or a copy if the body's bytes came in several chunks.
   */
  piece: Buffer | undefined;
  /** The position after the bytes that the last read has taken. */
  next = 0;
  /** How many chunk lines the last read has taken; a long line counts as several. */
  lines = 0;

  /** @param text must be empty whenever a body begins */
  constructor(text: HeldText) {
    this.#text = text;
  }

  /** Prepares to read a body. @param trailerRoom how many bytes the body's trailers may take up */
  begin({ type, length = 0 }: BodyFraming, trailerRoom: number): void {
    this.#text.clear();
    this.#isChunked = type === 'chunked';
    this.#remaining = length;
    this.#trailerRoom = trailerRoom;
    if (this.#isChunked) this.#state = 'chunk_head';
    else this.#state = length === 0 ? 'end' : 'data';
  }

  /**
   * Reads bytes of the body and sets `piece` and `next`. If there is a fault, `piece` contains the bytes before it.
   *
   * @param lines maximum number of lines to read, because the number of lines, not of bytes, decides how long reading takes
   * @returns `end` at the end of the body, `more` before it, or a fault, after which the rest of the body cannot be read
   */
  read(bytes: Buffer, at: number, lines = Infinity): 'more' | 'end' | BodyFault {
    this.piece = undefined;
    this.next = at;
    this.lines = 0;
    let fault: BodyFault | undefined;
    while (fault === undefined && this.#state !== 'end' && this.next < bytes.length && this.lines < lines) {
      if (this.#state === 'data') {
        this.#readData(bytes);
      } else if (this.#readShortLine(bytes)) {
        this.lines += 1;
      } else {
        this.lines += longLine;
        fault = this.#readLine(bytes);
      }
    }
    if (this.#gathered !== undefined) {
      this.piece = this.#gathered.subarray(0, this.#gatheredLength);
      this.#gathered = undefined;
    }
    return fault ?? (this.#state === 'end' ? 'end' : 'more');
  }

  #readData(bytes: Buffer): void {
    const from = this.next;
    const length = Math.min(bytes.length - from, this.#remaining);
    this.next += length;
    this.#remaining -= length;
    if (this.#remaining === 0) this.#state = this.#isChunked ? 'chunk_end' : 'end';
    if (this.piece === undefined) this.piece = bytes.subarray(from, this.next);
    else this.#gather(this.piece, bytes, from);
  }

  /** Joins the chunks of one read. A read of 64 KiB can contain 10,900 chunks, and each would otherwise be a separate event. */
  #gather(first: Buffer, bytes: Buffer, from: number): void {
    if (this.#gathered === undefined) {
      this.#gathered = Buffer.allocUnsafe(first.length + bytes.length - from);
      this.#gatheredLength = first.copy(this.#gathered);
    }
    if (this.next - from > shortChunk) {
      this.#gatheredLength += bytes.copy(this.#gathered, this.#gatheredLength, from, this.next);
      return;
    }
    for (let i = from; i < this.next; i += 1) {
      this.#gathered[this.#gatheredLength] = bytes[i] as number;
      this.#gatheredLength += 1;
    }
  }

  /**
   * Reads the end of a chunk, or a chunk head that is only a size of one or two digits. @returns false if the next line is neither of these
   * or is incomplete
   */
  #readShortLine(bytes: Buffer): boolean {
    if (this.#text.length > 0) return false;
    let at = this.next;
    if (this.#state === 'chunk_end') {
      if (bytes[at] !== cr || bytes[at + 1] !== lf) return false;
      this.#state = 'chunk_head';
      this.next = at + 2;
      return true;
    }
    if (this.#state !== 'chunk_head') return false;
    let size = hexDigit(bytes[at]);
    if (size === undefined) return false;
    at += 1;
    const second = hexDigit(bytes[at]);
    if (second !== undefined) {
      size = 16 * size + second;
      at += 1;
    }
    if (size === 0 || bytes[at] !== cr || bytes[at + 1] !== lf) return false;
    this.#remaining = size;
    this.#state = 'data';
    this.next = at + 2;
    return true;
  }

  #readLine(bytes: Buffer): BodyFault | undefined {
    const isTrailer = this.#state === 'trailer';
    const limit = isTrailer ? this.#trailerRoom : this.#state === 'chunk_head' ? maxChunkHeadSize : 0;
    const line = this.#text.take(bytes, this.next, '\r\n', limit);
    this.next = this.#text.next;
    if (line === undefined) return undefined;
    if (line === false) return isTrailer ? 'HEAD_TOO_LARGE' : 'BAD_CHUNK';
    if (isTrailer) return this.#onTrailer(line);
    if (this.#state === 'chunk_head') return this.#onChunkHead(line);
    this.#state = 'chunk_head';
    return undefined;
  }

  #onChunkHead(head: string): BodyFault | undefined {
    const size = chunkHeadForm.exec(head)?.[1];
    if (size === undefined) return 'BAD_CHUNK';
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailer' : 'data';
    return undefined;
  }

  /** Trailers are dropped, because they describe a body that the recipient may not get unchanged. */
  #onTrailer(trailer: string): BodyFault | undefined {
    this.#trailerRoom = Math.max(0, this.#trailerRoom - trailer.length - 2);
    if (trailer === '') this.#state = 'end';
    else if (!trailerForm.test(trailer)) return 'BAD_TRAILER';
    return undefined;
  }
}

function hexDigit(byte = 0): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}
