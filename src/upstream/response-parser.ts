import type { ResponseEvents } from './call.ts';

/**
 * A strict parser of HTTP/1.1 responses (RFC 9112). A response whose length is not stated exactly once is refused: one that
 * ends with its connection cannot be told from a broken one, and the bytes behind a length that can be read in two ways could
 * be taken for the response to another request.
 */

/** Why bytes are not a response; for the log. */
export type ResponseFault =
  | 'UNEXPECTED_DATA'
  | 'BAD_HEAD'
  | 'HEAD_TOO_LARGE'
  | 'BAD_LENGTH'
  | 'NO_LENGTH'
  | 'BAD_CHUNK'
  | 'BAD_TRAILER'
  | 'BAD_STATUS';

/** Bytes that the heads of a response may have in total, informational ones and trailers included. */
export const maxHeadSize = 32_768;
const maxChunkHeadSize = 256;

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const text = '[\\t\\x20-\\x7e\\x80-\\xff]';
const quoted = `"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\${text})*"`;
// Each takes linear time: no two alternatives at one place begin with the same character.
const headForm = new RegExp(`^HTTP/1\\.[01] \\d{3}(?: ${text}*)?(?:\\r\\n${token}:${text}*)*$`);
const chunkHeadForm = new RegExp(`^([0-9A-Fa-f]{1,12})(?:;${token}(?:=(?:${token}|${quoted}))?)*$`);
const trailerForm = new RegExp(`^${token}:${text}*$`);

type State = 'idle' | 'head' | 'sized' | 'chunk_head' | 'chunk' | 'chunk_end' | 'trailer';

/** Parses the responses of one connection, one after the other. */
export class ResponseParser {
  #events: ResponseEvents | undefined;
  #method = '';
  #state: State = 'idle';
  /** The beginning of a head, chunk head or trailer that is incomplete. */
  #held = Buffer.alloc(0);
  #heldLength = 0;
  /** Bytes of the body, or of its chunk, that are still to come. */
  #remaining = 0;
  /** Bytes that the heads and trailers of the response may still have. */
  #headRoom = maxHeadSize;
  /** The length of the body as the head states it: infinite if it is chunked, NaN if it is invalid or stated twice. */
  #length: number | undefined;
  /** The position of the next byte in the chunk that is being parsed. */
  #at = 0;

  /** Whether a byte of the response has arrived. */
  begun = false;
  /** Whether the connection may carry another request once the response is complete. */
  reusable = true;
  /** The time in seconds for which the upstream keeps an idle connection (`Keep-Alive: timeout=N`). */
  keepAlive: number | undefined;

  /** Expects the response to a request. @param method of the request: a response to HEAD has no body, whatever it says */
  begin(method: string, events: ResponseEvents): void {
    this.#events = events;
    this.#method = method;
    this.#state = 'head';
    this.#headRoom = maxHeadSize;
    this.begun = false;
    this.reusable = true;
    this.keepAlive = undefined;
  }

  /** Reports nothing more of this response. */
  stop(): void {
    this.#events = undefined;
  }

  /**
   * Parses the bytes that have arrived.
   *
   * @param chunk may be overwritten after the call: all that is kept is copied
   * @returns `end` at the end of the response, `more` before it, or the fault, after which the connection is unusable
   */
  push(chunk: Buffer): 'more' | 'end' | ResponseFault {
    if (this.#state === 'idle') return 'UNEXPECTED_DATA';
    this.begun = true;
    this.#at = 0;
    while (this.#at < chunk.length && this.#events !== undefined) {
      const fault = this.#step(chunk, this.#events);
      if (fault !== undefined) return fault;
      if (this.#isComplete()) {
        // Further bytes belong to no request.
        if (this.#at < chunk.length) this.reusable = false;
        return 'end';
      }
    }
    return 'more';
  }

  #isComplete(): boolean {
    return this.#state === 'idle';
  }

  #step(chunk: Buffer, events: ResponseEvents): ResponseFault | undefined {
    switch (this.#state) {
      case 'head': {
        const head = this.#take(chunk, '\r\n\r\n', this.#headRoom);
        if (head === false) return 'HEAD_TOO_LARGE';
        if (head !== undefined) return this.#onHead(head, events);
        return mayBecomeHead(this.#held, this.#heldLength) ? undefined : 'BAD_HEAD';
      }
      case 'sized':
      case 'chunk':
        this.#onData(chunk, events);
        return undefined;
      case 'chunk_end': {
        const end = this.#take(chunk, '\r\n', 0);
        if (end === false) return 'BAD_CHUNK';
        if (end !== undefined) this.#state = 'chunk_head';
        return undefined;
      }
      case 'chunk_head': {
        const head = this.#take(chunk, '\r\n', maxChunkHeadSize);
        if (head === false) return 'BAD_CHUNK';
        return head === undefined ? undefined : this.#onChunkHead(head);
      }
      case 'trailer': {
        const trailer = this.#take(chunk, '\r\n', this.#headRoom);
        if (trailer === false) return 'HEAD_TOO_LARGE';
        return trailer === undefined ? undefined : this.#onTrailer(trailer);
      }
      default:
        return undefined;
    }
  }

  /**
   * Takes the text before `end`, and `end` itself. Each byte is copied and searched once, however the text is split.
   *
   * @param limit bytes of the text at most
   * @returns undefined while it is incomplete, false if it is too long
   */
  #take(chunk: Buffer, end: string, limit: number): string | false | undefined {
    if (this.#heldLength === 0) {
      const found = chunk.indexOf(end, this.#at, 'latin1');
      if (found !== -1) {
        if (found - this.#at > limit) return false;
        const taken = chunk.toString('latin1', this.#at, found);
        this.#at = found + end.length;
        return taken;
      }
    }
    const before = this.#heldLength;
    this.#hold(chunk, limit + end.length);
    const held = this.#held.subarray(0, this.#heldLength);
    const found = held.indexOf(end, Math.max(0, before - end.length + 1), 'latin1');
    if (found === -1) {
      // Beyond the limit only the beginning of `end` is allowed.
      if (this.#heldLength > limit && !end.startsWith(held.toString('latin1', limit))) return false;
      return undefined;
    }
    this.#at -= this.#heldLength - found - end.length;
    this.#heldLength = 0;
    return held.toString('latin1', 0, found);
  }

  /** Keeps the rest of `chunk`, up to `maxLength` bytes in total. */
  #hold(chunk: Buffer, maxLength: number): void {
    const length = Math.min(maxLength, this.#heldLength + chunk.length - this.#at);
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(256, 2 * length));
      this.#held.copy(larger, 0, 0, this.#heldLength);
      this.#held = larger;
    }
    this.#at += chunk.copy(this.#held, this.#heldLength, this.#at, this.#at + length - this.#heldLength);
    this.#heldLength = length;
  }

  #onHead(head: string, events: ResponseEvents): ResponseFault | undefined {
    this.#headRoom = Math.max(0, this.#headRoom - head.length - 4);
    if (!headForm.test(head)) return 'BAD_HEAD';
    const status = Number(head.slice(9, 12));
    if (status < 100 || status > 599) return 'BAD_STATUS';
    const isHttp11 = head.charCodeAt(7) === 0x31;
    this.reusable = isHttp11;
    const headers = this.#readHeaders(head, isHttp11);
    if (status === 101) {
      this.#state = 'idle';
      return isHttp11 && events.acceptsSwitch?.(headers) === true ? undefined : 'BAD_STATUS';
    }
    if (status < 200) {
      // A bare 100 has no meaning here: the request's body is sent without waiting for it.
      if (status !== 100) events.onInformation(status, headers);
      return undefined;
    }
    const fault = this.#expectBody(status);
    if (fault === undefined) events.onHead(status, headers);
    return fault;
  }

  /** @returns a flat list of names and values */
  #readHeaders(head: string, isHttp11: boolean): readonly string[] {
    const headers: string[] = [];
    let length: number | undefined;
    for (let line = head.indexOf('\r\n'); line !== -1;) {
      const colon = head.indexOf(':', line);
      const next = head.indexOf('\r\n', colon);
      const name = head.slice(line + 2, colon);
      const value = trimmed(head, colon + 1, next === -1 ? head.length : next);
      line = next;
      headers.push(name, value);
      switch (name.toLowerCase()) {
        case 'content-length':
          length = length === undefined && /^\d{1,15}$/.test(value) ? Number(value) : NaN;
          break;
        case 'transfer-encoding':
          length = length === undefined && isHttp11 && value.toLowerCase() === 'chunked' ? Infinity : NaN;
          break;
        case 'connection':
          if (/\bclose\b/i.test(value)) this.reusable = false;
          break;
        case 'keep-alive': {
          const seconds = /\btimeout=(\d{1,9})/i.exec(value)?.[1];
          if (seconds !== undefined) this.keepAlive = Number(seconds);
          break;
        }
        default:
      }
    }
    this.#length = length;
    return headers;
  }

  /** Prepares for the body of a response with this status. */
  #expectBody(status: number): ResponseFault | undefined {
    if (Number.isNaN(this.#length)) return 'BAD_LENGTH';
    if (!mayHaveBody(this.#method, status)) {
      // If the upstream sends a body after all, it would be taken for the next response on the connection.
      this.reusable = false;
      this.#state = 'idle';
    } else if (this.#length === undefined) {
      return 'NO_LENGTH';
    } else if (this.#length === Infinity) {
      this.#state = 'chunk_head';
    } else {
      this.#remaining = this.#length;
      this.#state = this.#length === 0 ? 'idle' : 'sized';
    }
    return undefined;
  }

  #onData(chunk: Buffer, events: ResponseEvents): void {
    const length = Math.min(chunk.length - this.#at, this.#remaining);
    const part = Buffer.allocUnsafe(length);
    this.#at += chunk.copy(part, 0, this.#at, this.#at + length);
    this.#remaining -= length;
    if (this.#remaining === 0) this.#state = this.#state === 'chunk' ? 'chunk_end' : 'idle';
    events.onData(part);
  }

  #onChunkHead(head: string): ResponseFault | undefined {
    const size = chunkHeadForm.exec(head)?.[1];
    if (size === undefined) return 'BAD_CHUNK';
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailer' : 'chunk';
    return undefined;
  }

  /** Trailers are dropped: they describe a body that the client may not get unchanged. */
  #onTrailer(trailer: string): ResponseFault | undefined {
    this.#headRoom = Math.max(0, this.#headRoom - trailer.length - 2);
    if (trailer === '') this.#state = 'idle';
    else if (!trailerForm.test(trailer)) return 'BAD_TRAILER';
    return undefined;
  }
}

/** Whether a response has a body at all (RFC 9110 §6.4.1). */
export function mayHaveBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304;
}

/** A field's value without surrounding spaces. `trim` would also remove U+00A0, which may be a byte of UTF-8. */
function trimmed(head: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isSpace(head.charCodeAt(from))) from += 1;
  while (to > from && isSpace(head.charCodeAt(to - 1))) to -= 1;
  return head.slice(from, to);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Whether an incomplete head may become valid: not if it is not HTTP, or if its first line ends in a bare line feed. */
function mayBecomeHead(held: Buffer, length: number): boolean {
  if (!'HTTP/1.'.startsWith(held.toString('latin1', 0, Math.min(7, length)))) return false;
  const firstLineFeed = held.subarray(0, length).indexOf(0x0a);
  return firstLineFeed === -1 || held[firstLineFeed - 1] === 0x0d;
}
