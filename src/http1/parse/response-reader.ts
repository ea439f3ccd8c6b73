import { BodyReader, type BodyFault } from './body-reader.ts';
import { isNamed, keepsAlive, mayHaveBody, readFields, readFraming, responseHeadForm, unstated } from './grammar.ts';
import { HeldText } from './held-text.ts';

/**
 * A strict reader of HTTP/1.1 responses (RFC 9112). It refuses a response whose length is not stated exactly once. If a response ended with
 * its connection, it could not be distinguished from a broken one. If its length could be read in two ways, the bytes after it could be
 * taken for the response to another request.
 */

/** Why the received bytes are not a valid response; for the log. */
export type ResponseFault =
  BodyFault | 'UNEXPECTED_DATA' | 'BAD_HEAD' | 'BAD_LENGTH' | 'NO_LENGTH' | 'BAD_STATUS' | 'EARLIER_RESPONSE';

/** Receives the parts of a response as they are read. */
export interface ResponseEvents {
  /** An informational response (102–199) before the final one. */
  onInformation(status: number, headers: readonly string[]): void;
  /** The response's head: a status of 200–599, and a flat list of names and values as sent. */
  onHead(status: number, headers: readonly string[]): void;
  /** @param chunk a view that is valid only during the call, so copy whatever is needed for longer */
  onData(chunk: Buffer): void;
  /** Called for a 101; returning true hands the connection over. If this method is absent, a 101 is a fault. */
  acceptsSwitch?(headers: readonly string[]): boolean;
}

/** Maximum total size of a response's heads in bytes, including informational heads and trailers. */
export const maxHeadSize = 32_768;
type State = 'idle' | 'head' | 'body';

/** Reads the responses on one connection, one after another. */
export class ResponseReader {
  readonly #isEarlier: (requestId: string) => boolean;
  #events: ResponseEvents | undefined;
  #method = '';
  #state: State = 'idle';
  readonly #text = new HeldText();
  readonly #body = new BodyReader(this.#text);
  /** How many more bytes the heads and trailers of the response may take. */
  #headRoom = maxHeadSize;

  /** Whether a byte of the response has arrived. */
  hasStarted = false;
  /** Whether the connection may carry another request once the response is complete. */
  reusable = true;
  /** How many seconds the upstream keeps an idle connection (`Keep-Alive: timeout=N`). */
  keepAlive: number | undefined;
  /** Whether the piece in which the response ended contains further bytes, which nobody asked for. */
  excess = false;

  /** @param isEarlier whether a request id belongs to an earlier request on the connection; a response with such an id is a fault */
  constructor(isEarlier: (requestId: string) => boolean = () => false) {
    this.#isEarlier = isEarlier;
  }

  /**
   * Expects the response to a request. @param method the request's method, because a response to HEAD has no body, whatever its head says
   */
  begin(method: string, events: ResponseEvents): void {
    this.#events = events;
    this.#method = method;
    this.#state = 'head';
    this.#headRoom = maxHeadSize;
    this.hasStarted = false;
    this.reusable = true;
    this.keepAlive = undefined;
  }

  /** The number of chunk lines in the last read, as `BodyReader` counts them. */
  get lines(): number {
    return this.#body.lines;
  }

  /** Stops reporting the response. */
  stop(): void {
    this.#events = undefined;
  }

  /**
   * Reads the bytes that have arrived.
   *
   * @param chunk may be overwritten after the call, because all bytes that are kept are copied
   * @returns `end` at the end of the response, `more` before it, or the fault, after which the connection is unusable
   */
  push(chunk: Buffer): 'more' | 'end' | ResponseFault {
    if (this.#state === 'idle') return 'UNEXPECTED_DATA';
    this.hasStarted = true;
    let at = 0;
    while (at < chunk.length && this.#events !== undefined) {
      const isHead = this.#state === 'head';
      const fault = isHead ? this.#readHead(chunk, at, this.#events) : this.#readBody(chunk, at, this.#events);
      if (fault !== undefined) return fault;
      at = isHead ? this.#text.next : this.#body.next;
      if (this.#isComplete()) {
        // The bytes after the response do not belong to any request.
        if (at < chunk.length) {
          this.reusable = false;
          this.excess = true;
        }
        return 'end';
      }
    }
    return 'more';
  }

  #isComplete(): boolean {
    return this.#state === 'idle';
  }

  #readHead(chunk: Buffer, at: number, events: ResponseEvents): ResponseFault | undefined {
    const head = this.#text.take(chunk, at, '\r\n\r\n', this.#headRoom);
    if (head === false) return 'HEAD_TOO_LARGE';
    if (head !== undefined) return this.#onHead(head, events);
    return mayBecomeHead(this.#text.bytes) ? undefined : 'BAD_HEAD';
  }

  #readBody(chunk: Buffer, at: number, events: ResponseEvents): ResponseFault | undefined {
    const outcome = this.#body.read(chunk, at);
    if (outcome === 'end') this.#state = 'idle';
    if (this.#body.piece !== undefined) events.onData(this.#body.piece);
    return outcome === 'end' || outcome === 'more' ? undefined : outcome;
  }

  #onHead(head: string, events: ResponseEvents): ResponseFault | undefined {
    this.#headRoom = Math.max(0, this.#headRoom - head.length - 4);
    if (!responseHeadForm.test(head)) return 'BAD_HEAD';
    const status = Number(head.slice(9, 12));
    if (status < 100 || status > 599) return 'BAD_STATUS';
    const minor = head.charCodeAt(7) === 0x31 ? 1 : 0;
    const fields = readFields(head, head.indexOf('\r\n'));
    this.reusable = minor === 1 && keepsAlive(fields, minor);
    if (!this.#readFields(fields)) return 'EARLIER_RESPONSE';
    if (status === 101) {
      this.#state = 'idle';
      return minor === 1 && events.acceptsSwitch?.(fields) === true ? undefined : 'BAD_STATUS';
    }
    if (status < 200) {
      // A 100 is ignored, because the request's body is sent without waiting for it.
      if (status !== 100) events.onInformation(status, fields);
      return undefined;
    }
    const framing = readFraming(fields, minor);
    if (typeof framing === 'string') return 'BAD_LENGTH';
    if (!mayHaveBody(this.#method, status)) {
      // The connection is not reused. If the upstream sent a body after all, the body would be taken for the next response.
      this.reusable = false;
      this.#state = 'idle';
    } else if (framing === unstated) {
      return 'NO_LENGTH';
    } else {
      this.#body.begin(framing, this.#headRoom);
      this.#state = framing.length === 0 ? 'idle' : 'body';
    }
    events.onHead(status, fields);
    return undefined;
  }

  /** Reads the fields that affect the connection. @returns false if this is the response to an earlier request */
  #readFields(fields: readonly string[]): boolean {
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const name = fields[i] as string;
      const value = fields[i + 1] as string;
      if (isNamed(name, 'x-request-id')) {
        if (this.#isEarlier(value)) return false;
      } else if (isNamed(name, 'keep-alive')) {
        const seconds = /\btimeout=(\d{1,9})/i.exec(value)?.[1];
        if (seconds !== undefined) this.keepAlive = Number(seconds);
      }
    }
    return true;
  }
}

/** Whether an incomplete head may become valid. It cannot if it is not HTTP, or if its first line ends with a bare line feed. */
function mayBecomeHead(held: Buffer): boolean {
  if (!'HTTP/1.'.startsWith(held.toString('latin1', 0, Math.min(7, held.length)))) return false;
  const firstLineFeed = held.indexOf(0x0a);
  return firstLineFeed === -1 || held[firstLineFeed - 1] === 0x0d;
}
