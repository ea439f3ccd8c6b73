import { chunkHeadForm } from './grammar.ts';
import type { HeldText } from './held-text.ts';

/** Why bytes are not the rest of a body. */
export type BodyFault = 'BAD_CHUNK' | 'BAD_TRAILER' | 'HEAD_TOO_LARGE';

const maxChunkHeadSize = 256;

type State = 'sized' | 'chunk_head' | 'chunk' | 'chunk_end' | 'trailer' | 'end';

/** Reads one body after the other, of a stated length or in chunks. */
export class BodyReader {
  readonly #text: HeldText;
  #state: State = 'end';
  /** Bytes of the body, or of its chunk, that are still to come. */
  #remaining = 0;
  #trailerRoom = 0;
  #trailerForm: RegExp | undefined;
  #gathered: Buffer | undefined;
  #gatheredLength = 0;

  /** The body's bytes of the last read: a view of it, unless they came in several chunks. */
  piece: Buffer | undefined;
  /** The position behind the bytes that the last read has taken. */
  next = 0;

  /** @param text holds nothing whenever a body begins */
  constructor(text: HeldText) {
    this.#text = text;
  }

  /**
   * Expects a body.
   *
   * @param length      in bytes; infinite for one in chunks
   * @param trailerRoom bytes that its trailers may have
   * @param trailer     the form of each
   */
  begin(length: number, trailerRoom: number, trailer: RegExp): void {
    this.#text.clear();
    this.#remaining = length;
    this.#trailerRoom = trailerRoom;
    this.#trailerForm = trailer;
    if (length === 0) this.#state = 'end';
    else this.#state = length === Infinity ? 'chunk_head' : 'sized';
  }

  /**
   * Reads bytes of the body; `piece` and `next` then say which. Even with a fault, `piece` has the bytes before it.
   *
   * @returns `end` at the end of the body, or a fault, after which there is none
   */
  read(bytes: Buffer, at: number): 'more' | 'end' | BodyFault {
    this.piece = undefined;
    this.next = at;
    let fault: BodyFault | undefined;
    while (fault === undefined && this.#state !== 'end' && this.next < bytes.length) fault = this.#step(bytes);
    if (this.#gathered !== undefined) {
      this.piece = this.#gathered.subarray(0, this.#gatheredLength);
      this.#gathered = undefined;
    }
    return fault ?? (this.#state === 'end' ? 'end' : 'more');
  }

  #step(bytes: Buffer): BodyFault | undefined {
    switch (this.#state) {
      case 'chunk_end': {
        const end = this.#take(bytes, 0);
        if (end === false) return 'BAD_CHUNK';
        if (end !== undefined) this.#state = 'chunk_head';
        return undefined;
      }
      case 'chunk_head': {
        const head = this.#take(bytes, maxChunkHeadSize);
        if (head === false) return 'BAD_CHUNK';
        return head === undefined ? undefined : this.#onChunkHead(head);
      }
      case 'trailer': {
        const trailer = this.#take(bytes, this.#trailerRoom);
        if (trailer === false) return 'HEAD_TOO_LARGE';
        return trailer === undefined ? undefined : this.#onTrailer(trailer);
      }
      default:
        this.#onData(bytes);
        return undefined;
    }
  }

  #take(bytes: Buffer, limit: number): string | false | undefined {
    const line = this.#text.take(bytes, this.next, '\r\n', limit);
    this.next = this.#text.next;
    return line;
  }

  #onData(bytes: Buffer): void {
    const from = this.next;
    const length = Math.min(bytes.length - from, this.#remaining);
    this.next += length;
    this.#remaining -= length;
    if (this.#remaining === 0) this.#state = this.#state === 'chunk' ? 'chunk_end' : 'end';
    if (this.piece === undefined) this.piece = bytes.subarray(from, this.next);
    else this.#gather(this.piece, bytes, from);
  }

  /** Joins the chunks of one read: 64 KiB can be 10,900 of them, each of which would be an event. */
  #gather(first: Buffer, bytes: Buffer, from: number): void {
    if (this.#gathered === undefined) {
      this.#gathered = Buffer.allocUnsafe(first.length + bytes.length - from);
      this.#gatheredLength = first.copy(this.#gathered);
    }
    this.#gatheredLength += bytes.copy(this.#gathered, this.#gatheredLength, from, this.next);
  }

  #onChunkHead(head: string): BodyFault | undefined {
    const size = chunkHeadForm.exec(head)?.[1];
    if (size === undefined) return 'BAD_CHUNK';
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailer' : 'chunk';
    return undefined;
  }

  /** Trailers are dropped: they describe a body that the recipient may not get unchanged. */
  #onTrailer(trailer: string): BodyFault | undefined {
    this.#trailerRoom = Math.max(0, this.#trailerRoom - trailer.length - 2);
    if (trailer === '') this.#state = 'end';
    else if (this.#trailerForm?.test(trailer) !== true) return 'BAD_TRAILER';
    return undefined;
  }
}
