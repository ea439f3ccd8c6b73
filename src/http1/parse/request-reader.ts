import type { BodyFault } from './body-reader.ts';
import {
  brokenForm,
  keepsAlive,
  looseRequestLineForm,
  methodAt,
  readFields,
  readFraming,
  requestHeadForm,
  type BodyFraming,
} from './grammar.ts';
import type { HeldText } from './held-text.ts';

/**
 * Why bytes are not a request that is served. `ambiguous`: other recipients could read the bytes in another way, or as a request of a kind
 * that is not supported. After a fault, no byte of the connection is read as a request.
 */
export type RequestFault = 'malformed' | 'ambiguous' | 'too_large' | 'timeout';

/** The fault in what was read of a body, if there is one. */
export function toRequestFault(outcome: 'more' | 'end' | BodyFault): RequestFault | undefined {
  if (outcome === 'more' || outcome === 'end') return undefined;
  return outcome === 'HEAD_TOO_LARGE' ? 'too_large' : 'malformed';
}

/** The head of a request, as sent. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  /** The minor version: HTTP/1.0 or HTTP/1.1. */
  readonly minor: 0 | 1;
  /** Flat list of names and values; characters are bytes. */
  readonly fields: readonly string[];
  readonly framing: BodyFraming;
  /** Whether the client lets the connection carry another request. */
  readonly keepAlive: boolean;
  /** In bytes, including the empty line at the end. */
  readonly size: number;
}

/** Receives the body of a request. After `onEnd` or `onFault` nothing more is called, nor after the end of the response. */
export interface BodySink {
  /** @param piece a view that is valid only during the call: copy what must outlive it. At most one for each read */
  onData(piece: Buffer): void;
  /** The body is complete. Called even while the body is paused, if its last piece had already arrived. */
  onEnd(): void;
  /** The bytes are not a body. The response, if it has not ended, ends the connection. */
  onFault(fault: RequestFault): void;
}

/** The limits of a request's head, its trailers included. */
export interface HeadLimits {
  /** In bytes. */
  readonly maxHeadSize: number;
  readonly maxFields: number;
}

const endOfHead = '\r\n\r\n';

/** One is allowed before a head (RFC 9112 §2.2). */
const emptyLine = '\r\n';

/** The first three bytes of a head, or fewer. */
const startForm = /^(?:\r\n)?[A-Z]|^(?:\r\n?)?$/;

/** A tab next to these values: readers differ on whether it belongs to them. */
const tabbedFramingForm = /^(?:content-length|transfer-encoding):[^\r]*\t/im;

/** Reads the heads of the requests of one connection. What it accepts has one meaning (RFC 9112 §11). */
export class RequestReader {
  readonly #text: HeldText;
  #lineIsChecked = false;
  /** Whether a byte of an incomplete head has arrived, besides the empty line that may precede it. */
  hasStarted = false;
  /** The position after the bytes that the last read has taken. */
  next = 0;
  /** What was read of an ambiguous head; characters are bytes. */
  faulty = '';

  /** @param text holds nothing whenever a head begins */
  constructor(text: HeldText) {
    this.#text = text;
  }

  /**
   * Reads bytes of a head; whatever is kept is copied. `next` then says how much was taken.
   *
   * @returns undefined while the head is incomplete
   */
  read(bytes: Buffer, { maxHeadSize, maxFields }: HeadLimits): RequestHead | RequestFault | undefined {
    const checked = this.#text.length;
    const limit = maxHeadSize - endOfHead.length;
    const text = this.#text.take(bytes, 0, endOfHead, limit);
    this.next = this.#text.next;
    if (typeof text !== 'string') {
      const held = this.#text.bytes.subarray(0, limit);
      this.hasStarted = !emptyLine.startsWith(held.toString('latin1', 0, 3));
      const fault = this.#faultIn(held, checked) ?? (text === false ? 'too_large' : undefined);
      if (fault === 'ambiguous') this.faulty = held.toString('latin1');
      return fault;
    }
    this.hasStarted = false;
    this.#lineIsChecked = false;
    const head = text.startsWith(emptyLine) ? text.slice(emptyLine.length) : text;
    const parsed = parseHead(head, maxFields);
    if (parsed === 'ambiguous') this.faulty = head;
    return parsed;
  }

  /** The fault in an incomplete head, so that a client need not wait for a timeout. @param checked how many bytes were checked before */
  #faultIn(held: Buffer, checked: number): RequestFault | undefined {
    if (!startForm.test(held.toString('latin1', 0, 3))) return 'malformed';
    // A line end may have been split between two reads.
    const from = Math.max(0, checked - 1);
    if (!this.#lineIsChecked) {
      const start = held[0] === 0x0d ? emptyLine.length : 0;
      const end = held.indexOf('\r\n', Math.max(start, from), 'latin1');
      this.#lineIsChecked = end !== -1;
      const fault = end === -1 ? undefined : faultInLine(held.toString('latin1', start, end));
      if (fault !== undefined) return fault;
    }
    return brokenForm.test(held.toString('latin1', from)) ? 'malformed' : undefined;
  }
}

function parseHead(head: string, maxFields: number): RequestHead | RequestFault {
  const line = head.indexOf('\r\n');
  const endOfLine = line === -1 ? head.length : line;
  if (!requestHeadForm.test(head)) return faultInLine(head.slice(0, endOfLine)) ?? 'malformed';
  const endOfMethod = head.indexOf(' ');
  const method = methodAt(head, endOfMethod);
  if (method === undefined) return 'malformed';
  if (method === 'CONNECT') return 'ambiguous';
  const fields = readFields(head, line);
  if (fields.length > 2 * maxFields) return 'too_large';
  const target = head.slice(endOfMethod + 1, endOfLine - ' HTTP/1.1'.length);
  const minor = head.charCodeAt(endOfLine - 1) === 0x31 ? 1 : 0;
  const framing = readFraming(fields, minor);
  if (typeof framing === 'string') return framing;
  if (head.includes('\t') && tabbedFramingForm.test(head)) {
    return framing.type === 'chunked' ? 'ambiguous' : 'malformed';
  }
  const keepAlive = keepsAlive(fields, minor);
  return { method, target, minor, fields, framing, keepAlive, size: head.length + endOfHead.length };
}

/** Undefined if the first line of a request has the right form. */
function faultInLine(line: string): RequestFault | undefined {
  if (!looseRequestLineForm.test(line)) return 'malformed';
  const method = methodAt(line, line.indexOf(' '));
  // PRI, in the preface of HTTP/2, is not a method of any other request.
  if (method === undefined && !line.startsWith('PRI * HTTP/2')) return 'malformed';
  return method === 'CONNECT' || !requestHeadForm.test(line) ? 'ambiguous' : undefined;
}
