import type { BodyFault } from './body-reader.ts';
import { lengthForm, methodAt, looseRequestLineForm, readFields, requestHeadForm, requestLineForm } from './grammar.ts';
import type { HeldText } from './held-text.ts';

/**
 * Why bytes are not a request that is served. `ambiguous`: other recipients could read it in another way, or as a request of a
 * kind that is not supported. After any of them no byte of the connection is read as a request.
 */
export type RequestFault = 'malformed' | 'ambiguous' | 'too_large' | 'timeout';

/** The fault in what was read of a body, if there is one. */
export function faultOf(outcome: 'more' | 'end' | BodyFault): RequestFault | undefined {
  if (outcome === 'more' || outcome === 'end') return undefined;
  return outcome === 'HEAD_TOO_LARGE' ? 'too_large' : 'malformed';
}

/** How the length of a body in bytes is stated. `none`: no body follows, even if a length of 0 is stated. */
export type BodyFraming =
  | { readonly type: 'none'; readonly length: 0 | undefined }
  | { readonly type: 'sized'; readonly length: number }
  | { readonly type: 'chunked'; readonly length: undefined };

const unstated: BodyFraming = { type: 'none', length: undefined };
const empty: BodyFraming = { type: 'none', length: 0 };
const chunked: BodyFraming = { type: 'chunked', length: undefined };

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
  /** Bytes, its last empty line included. */
  readonly size: number;
}

/** The limits of a request's head, its trailers included. */
export interface HeadLimits {
  /** In bytes. */
  readonly maxHeadSize: number;
  readonly maxFields: number;
}

const endOfHead = '\r\n\r\n';

/** Reads the heads of the requests of one connection. What it accepts has one meaning (RFC 9112 §11). */
export class RequestReader {
  readonly #text: HeldText;
  /** Characters of the empty line before the head: one is allowed (RFC 9112 §2.2). */
  #emptyLine: 0 | 1 | 2 = 0;
  #lineIsChecked = false;
  /** The position behind the bytes that the last read has taken. */
  next = 0;
  /** What was read of a head that is ambiguous; characters are bytes. */
  faulty = '';

  /** @param text holds nothing whenever a head begins */
  constructor(text: HeldText) {
    this.#text = text;
  }

  /** Whether a byte of a head has arrived. */
  get begun(): boolean {
    return this.#text.length > 0;
  }

  /**
   * Reads bytes of a head; all that is kept is copied. `next` then says what was taken.
   *
   * @returns undefined while it is incomplete
   */
  read(bytes: Buffer, from: number, limits: HeadLimits): RequestHead | RequestFault | undefined {
    const at = this.begun ? from : this.#skipEmptyLine(bytes, from);
    this.next = at;
    if (at === bytes.length) return undefined;
    if (this.#emptyLine === 1) return 'malformed';
    const before = this.#text.length;
    const limit = limits.maxHeadSize - endOfHead.length;
    const head = this.#text.take(bytes, at, endOfHead, limit);
    this.next = this.#text.next;
    if (typeof head !== 'string') {
      const held = before === 0 ? bytes.subarray(at, at + limit) : this.#text.bytes.subarray(0, limit);
      const fault = this.#faultIn(held, before) ?? (head === false ? 'too_large' : undefined);
      if (fault === 'ambiguous') this.faulty = held.toString('latin1');
      return fault;
    }
    this.#emptyLine = 0;
    this.#lineIsChecked = false;
    const parsed = parseHead(head, limits.maxFields);
    if (parsed === 'ambiguous') this.faulty = head;
    return parsed;
  }

  #skipEmptyLine(bytes: Buffer, from: number): number {
    let at = from;
    if (this.#emptyLine === 0 && bytes[at] === 0x0d) {
      this.#emptyLine = 1;
      at += 1;
    }
    if (this.#emptyLine === 1 && bytes[at] === 0x0a) {
      this.#emptyLine = 2;
      at += 1;
    }
    return at;
  }

  /** The fault in an incomplete head, so that a client need not wait for a timeout. @param from what was checked before */
  #faultIn(held: Buffer, from: number): RequestFault | undefined {
    if (from === 0 && !isUpperCase(held[0])) return 'malformed';
    if (!this.#lineIsChecked) {
      const end = held.indexOf('\r\n', Math.max(0, from - 1), 'latin1');
      this.#lineIsChecked = end !== -1;
      const fault = end === -1 ? undefined : faultInLine(held.toString('latin1', 0, end));
      if (fault !== undefined) return fault;
    }
    for (let i = from; i < held.length; i += 1) {
      const byte = held[i] as number;
      const follows = i > 0 && held[i - 1] === 0x0d;
      const isAllowed = byte < 0x20 ? byte === 0x09 || byte === 0x0d || byte === 0x0a : byte !== 0x7f;
      if (!isAllowed || follows !== (byte === 0x0a)) return 'malformed';
    }
    return undefined;
  }
}

function isUpperCase(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x41 && byte <= 0x5a;
}

function parseHead(head: string, maxFields: number): RequestHead | RequestFault {
  const line = head.indexOf('\r\n');
  if (!requestHeadForm.test(head)) return faultInLine(line === -1 ? head : head.slice(0, line)) ?? 'malformed';
  const endOfLine = line === -1 ? head.length : line;
  const endOfMethod = head.indexOf(' ');
  const method = methodAt(head, endOfMethod);
  if (method === undefined) return 'malformed';
  if (method === 'CONNECT') return 'ambiguous';
  const fields = readFields(head, line);
  if (fields.length > 2 * maxFields) return 'too_large';
  const target = head.slice(endOfMethod + 1, endOfLine - ' HTTP/1.1'.length);
  const minor = head.charCodeAt(endOfLine - 1) === 0x31 ? 1 : 0;
  const framing = readFraming(head, fields, minor);
  if (typeof framing === 'string') return framing;
  const keepAlive = keepsAlive(fields, minor);
  return { method, target, minor, fields, framing, keepAlive, size: head.length + endOfHead.length };
}

/** Undefined if the first line of a request has the right form. */
function faultInLine(line: string): RequestFault | undefined {
  if (!looseRequestLineForm.test(line)) return 'malformed';
  const method = methodAt(line, line.indexOf(' '));
  // The preface of HTTP/2 is no method that any other request has.
  if (method === undefined && !line.startsWith('PRI * HTTP/2')) return 'malformed';
  return method === 'CONNECT' || !requestLineForm.test(line) ? 'ambiguous' : undefined;
}

/** A tab beside these values: readers differ on whether it belongs to them. */
const tabbedFramingForm = /^(?:content-length|transfer-encoding):[^\r]*\t/im;

/** A length that is faulty, or stated besides another framing, is malformed. Codings that readers differ on are ambiguous. */
function readFraming(head: string, fields: readonly string[], minor: 0 | 1): BodyFraming | 'malformed' | 'ambiguous' {
  let framing: BodyFraming = unstated;
  let isAmbiguous = false;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (framing !== unstated || !lengthForm.test(value)) return 'malformed';
      const length = Number(value);
      framing = length === 0 ? empty : { type: 'sized', length };
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (framing !== unstated && framing !== chunked) return 'malformed';
      // Codings other than chunked, one stated twice, and chunks in HTTP/1.0 (RFC 9112 §6.1).
      isAmbiguous ||= framing === chunked || minor === 0 || value.toLowerCase() !== 'chunked';
      framing = chunked;
    }
  }
  if (isAmbiguous) return 'ambiguous';
  if (framing === unstated || !head.includes('\t') || !tabbedFramingForm.test(head)) return framing;
  return framing === chunked ? 'ambiguous' : 'malformed';
}

const keepAliveForm = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i;

function keepsAlive(fields: readonly string[], minor: 0 | 1): boolean {
  let keepAlive = minor === 1;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue;
    const value = fields[i + 1] as string;
    // In doubt the connection ends: what another reader might take for `close` is one.
    if (/\bclose\b/i.test(value)) return false;
    if (keepAliveForm.test(value)) keepAlive = true;
  }
  return keepAlive;
}
