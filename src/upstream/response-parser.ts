/**
 * A strict parser of HTTP/1.1 answers (RFC 9112), as an upstream of one's own sends them. A response whose length is not
 * stated once and plainly is no response: one that ends with its connection cannot be told from a broken one, and what
 * follows a length read in two ways could be taken for somebody else's response.
 */

/** Receives the parts of a response as they are understood. */
export interface ResponseEvents {
  onInformation(status: number, headers: readonly string[]): void;
  onHead(status: number, headers: readonly string[]): void;
  onBody(chunk: Buffer): void;
  /** @param reusable whether the connection may carry another request */
  onComplete(reusable: boolean): void;
}

/** Why bytes are no response; for the log. */
export type ResponseFault = 'BAD_HEAD' | 'HEAD_TOO_LARGE' | 'BAD_LENGTH' | 'NO_LENGTH' | 'BAD_CHUNK' | 'BAD_STATUS';

/** Bytes a response's head, or the head of a chunk, may have. */
const longestHead = 32_768;
const longestChunkHead = 256;

const headForm =
  /^HTTP\/1\.[01] \d{3}(?: [\t\x20-\x7e\x80-\xff]*)?(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*)*$/;
const chunkHeadForm = /^([0-9A-Fa-f]{1,12})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;

type State = 'head' | 'sized' | 'chunk_head' | 'chunk' | 'chunk_end' | 'trailer' | 'complete';

/**
 * Parses one response. Give it every chunk of the connection; it reports through `events`. A chunk may be overwritten
 * afterwards: what outlives the call is a copy.
 */
export class ResponseParser {
  readonly #events: ResponseEvents;
  readonly #method: string;
  #state: State = 'head';
  /** An incomplete head, chunk head or trailer line. */
  #pending: Buffer | undefined;
  #remaining = 0;
  #keepAlive = true;
  #trailers = 0;

  /** @param method of the request: a response to HEAD has no body, whatever it says */
  constructor(method: string, events: ResponseEvents) {
    this.#events = events;
    this.#method = method;
  }

  /** @returns what is wrong, after which the connection is of no more use */
  push(chunk: Buffer): ResponseFault | undefined {
    let data = this.#pending === undefined ? chunk : Buffer.concat([this.#pending, chunk]);
    this.#pending = undefined;
    let fault: ResponseFault | undefined;
    while (data.length > 0 && fault === undefined) {
      const before = data.length;
      switch (this.#state) {
        case 'head': {
          const end = data.indexOf('\r\n\r\n');
          if (end > longestHead || (end === -1 && data.length > longestHead)) return 'HEAD_TOO_LARGE';
          if (end === -1) {
            if (!mayBecomeHead(data.toString('latin1'))) return 'BAD_HEAD';
            break;
          }
          fault = this.#onHead(data.toString('latin1', 0, end));
          data = data.subarray(end + 4);
          break;
        }
        case 'sized':
        case 'chunk':
          data = this.#onBody(data);
          break;
        case 'chunk_end':
          if (data.length < 2) break;
          if (data[0] !== 13 || data[1] !== 10) return 'BAD_CHUNK';
          this.#state = 'chunk_head';
          data = data.subarray(2);
          break;
        case 'chunk_head':
        case 'trailer': {
          const end = data.indexOf('\r\n');
          if (end > longestChunkHead || (end === -1 && data.length > longestChunkHead)) return 'BAD_CHUNK';
          if (end === -1) break;
          fault = this.#state === 'trailer' ? this.#onTrailer(end) : this.#onChunkHead(data.toString('latin1', 0, end));
          data = data.subarray(end + 2);
          break;
        }
        case 'complete':
          // Nobody asked for more.
          return 'BAD_LENGTH';
      }
      if (data.length === before) {
        this.#pending = Buffer.from(data);
        return fault;
      }
    }
    return fault;
  }

  #onHead(head: string): ResponseFault | undefined {
    if (!headForm.test(head)) return 'BAD_HEAD';
    const status = Number(head.slice(9, 12));
    const isHttp11 = head.startsWith('HTTP/1.1');
    const headers: string[] = [];
    const lengths: string[] = [];
    const codings: string[] = [];
    this.#keepAlive = isHttp11;
    for (const line of head.split('\r\n').slice(1)) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon);
      // Not `trim`, which takes the last byte of some characters in UTF-8 for a space.
      const value = line.slice(colon + 1).replace(/^[\t ]+|[\t ]+$/g, '');
      headers.push(name, value);
      const lower = name.toLowerCase();
      if (lower === 'content-length') lengths.push(value);
      else if (lower === 'transfer-encoding') codings.push(value.toLowerCase());
      else if (lower === 'connection' && /\bclose\b/i.test(value)) this.#keepAlive = false;
    }
    if (status < 200) {
      if (status < 100 || status === 101) return 'BAD_STATUS';
      // A bare 100 says nothing to anybody: the request's body was on its way anyway.
      if (status !== 100) this.#events.onInformation(status, headers);
      return undefined;
    }
    if (status > 599) return 'BAD_STATUS';

    if (lengths.length + codings.length > 1 || lengths.some((length) => !/^\d{1,15}$/.test(length)))
      return 'BAD_LENGTH';
    if (codings.length > 0 && (codings[0] !== 'chunked' || !isHttp11)) return 'BAD_LENGTH';
    const hasBody = mayHaveBody(this.#method, status);
    if (hasBody && lengths.length + codings.length === 0) return 'NO_LENGTH';
    this.#remaining = hasBody ? Number(lengths[0] ?? 0) : 0;
    this.#events.onHead(status, headers);
    if (hasBody && codings.length > 0) this.#state = 'chunk_head';
    else if (this.#remaining > 0) this.#state = 'sized';
    else this.#complete();
    return undefined;
  }

  /** @returns what lies behind the part of the body that is in `data` */
  #onBody(data: Buffer): Buffer {
    const part = data.length > this.#remaining ? data.subarray(0, this.#remaining) : data;
    this.#remaining -= part.length;
    this.#events.onBody(Buffer.from(part));
    if (this.#remaining === 0) {
      if (this.#state === 'chunk') this.#state = 'chunk_end';
      else this.#complete();
    }
    return data.subarray(part.length);
  }

  #onChunkHead(head: string): ResponseFault | undefined {
    const size = chunkHeadForm.exec(head)?.[1];
    if (size === undefined) return 'BAD_CHUNK';
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailer' : 'chunk';
    return undefined;
  }

  /** Trailers are dropped: what they say is about a body that the client may not get as it is. */
  #onTrailer(length: number): ResponseFault | undefined {
    this.#trailers += length;
    if (this.#trailers > longestHead) return 'HEAD_TOO_LARGE';
    if (length === 0) this.#complete();
    return undefined;
  }

  #complete(): void {
    this.#state = 'complete';
    this.#events.onComplete(this.#keepAlive);
  }
}

/** Whether a response has a body at all (RFC 9110 §6.4.1). */
export function mayHaveBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304;
}

/** Whether an incomplete head may become one: what is no HTTP, or ends its lines otherwise, would be waited for in vain. */
function mayBecomeHead(beginning: string): boolean {
  return 'HTTP/1.'.startsWith(beginning.slice(0, 7)) && !/[^\r]\n/.test(beginning);
}
