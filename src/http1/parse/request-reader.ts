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
 * Why the received bytes cannot be served as a request. `ambiguous`: another recipient might interpret them differently, or take them for a
 * request that the sidecar does not support, such as CONNECT. After a fault, nothing more on the connection is parsed as a request.
 */
export type RequestFault = 'malformed' | 'ambiguous' | 'too_large' | 'timeout';

/** The request fault for an outcome of reading a body; undefined if the outcome is not a fault. */
export function toRequestFault(outcome: 'more' | 'end' | BodyFault): RequestFault | undefined {
  if (outcome === 'more' || outcome === 'end') return undefined;
  return outcome === 'HEAD_TOO_LARGE' ? 'too_large' : 'malformed';
}

/** The head of a request, as sent. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  /** The minor version: 0 for HTTP/1.0, 1 for HTTP/1.1. */
  readonly minor: 0 | 1;
  /** Flat list of names and values; characters are bytes. */
  readonly fields: readonly string[];
  readonly framing: BodyFraming;
  /** Whether the client allows another request on the connection. */
  readonly keepAlive: boolean;
  /** Size in bytes, including the empty line at the end. */
  readonly size: number;
}

/** Receives the body of a request. No method is called after `onEnd` or `onFault`, or after the end of the response. */
export interface BodySink {
  /** Called at most once for each read. @param piece a view that is valid only during the call, so copy whatever is needed for longer */
  onData(piece: Buffer): void;
  /** The body is complete. Called even while the body is paused, if its last piece had already arrived. */
  onEnd(): void;
  /** The body's bytes are not valid. If the response has not ended, the connection is closed after the response. */
  onFault(fault: RequestFault): void;
}

/** Limits for a request's head, including its trailers. */
export interface HeadLimits {
  /** In bytes. */
  readonly maxHeadSize: number;
  readonly maxFields: number;
}

const endOfHead = '\r\n\r\n';

/** One empty line is allowed before a head (RFC 9112 §2.2). */
const emptyLine = '\r\n';

/** Matches the first three bytes of a head, or fewer if fewer have arrived. */
const startForm = /^(?:\r\n)?[A-Z]|^(?:\r\n?)?$/;

/** Matches a framing field that contains a tab. Recipients differ on whether a tab next to the value belongs to it. */
const tabbedFramingForm = /^(?:content-length|transfer-encoding):[^\r]*\t/im;

/** Reads the heads of the requests on one connection. Every head that it accepts has only one meaning (RFC 9112 §11). */
export class RequestReader {
  readonly #text: HeldText;
  #lineIsChecked = false;
  /** Whether a byte of an incomplete head has arrived, not counting the empty line that may precede the head. */
  hasStarted = false;
  /** The position after the bytes that the last read has taken. */
  next = 0;
  /** The part of an ambiguous head that was read; characters are bytes. */
  faulty = '';

  /** @param text must be empty whenever a head begins */
  constructor(text: HeldText) {
    this.#text = text;
  }

  /**
   * Reads bytes of a head, copies those that are kept, and sets `next`.
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

  /**
   * Finds a fault in an incomplete head, so that the client gets the refusal without waiting for a timeout. @param checked how many bytes
   * were checked before
   */
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

/** The fault in the first line of a request; undefined if the line has the right form. */
function faultInLine(line: string): RequestFault | undefined {
  if (!looseRequestLineForm.test(line)) return 'malformed';
  const method = methodAt(line, line.indexOf(' '));
  // PRI is not a method, but the preface of HTTP/2 begins with it.
  if (method === undefined && !line.startsWith('PRI * HTTP/2')) return 'malformed';
  return method === 'CONNECT' || !requestHeadForm.test(line) ? 'ambiguous' : undefined;
}
