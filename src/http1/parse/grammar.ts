import { http } from '../../http.ts';

/**
 * Regular expressions for HTTP/1.1 requests and responses (RFC 9112). Each takes linear time, because no two alternatives at the same point
 * begin with the same character. Only CRLF ends a line, lines are not folded, and no space may precede a colon. Characters are bytes
 * (latin1).
 */

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const text = '[\\t\\x20-\\x7e\\x80-\\xff]';
const quoted = `"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\${text})*"`;
const field = `${token}:${text}*`;

/** The head of a response, without the empty line at its end. */
export const responseHeadForm = new RegExp(`^HTTP/1\\.[01] \\d{3}(?: ${text}*)?(?:\\r\\n${field})*$`);

// Origin form, the asterisk, or absolute form with a plain host (RFC 9112 §3.2). Only CONNECT uses authority form.
const target = '(?:/[!-~]*|\\*|[A-Za-z]+://[A-Za-z0-9.:-]+(?:[/?][!-~]*)?)';

/** The head of a request, or its first line alone, without the empty line at its end. */
export const requestHeadForm = new RegExp(`^[A-Z-]+ ${target} HTTP/1\\.[01](?:\\r\\n${field})*$`);

/** A first line that other recipients may take for a request line: with another target, another version, or no version as in HTTP/0.9. */
export const looseRequestLineForm = new RegExp(`^${token} [!-~\\x80-\\xff]+(?: HTTP/\\d\\.\\d)?$`);

/** Matches anything that no head may contain: a line end other than CRLF, or another control character. */
export const brokenForm = new RegExp('[^\\r]\\n|\\r[^\\n]|[^\\r\\n\\t\\x20-\\x7e\\x80-\\xff]');

/** The head of a chunk; the first group is its size. */
export const chunkHeadForm = new RegExp(`^([0-9A-Fa-f]{1,12})(?:;${token}(?:=(?:${token}|${quoted}))?)*$`);

const framingNames = 'content-length|transfer-encoding|connection|proxy-connection|upgrade|host';

/** One field of a trailer section, unless other recipients could take it for framing (RFC 9110 §6.5.1). */
export const trailerForm = new RegExp(`^(?!(?:${framingNames}):)${field}$`, 'i');

/** A length in decimal digits, short enough to be a safe integer. */
const lengthForm = /^\d{1,15}$/;

/**
 * Reads the fields of a head that has the right form. Returns a flat list of names and values as sent.
 *
 * @param line the position of the first line end; -1 if there are no fields
 */
export function readFields(head: string, line: number): string[] {
  const fields: string[] = [];
  for (let end = line; end !== -1;) {
    const colon = head.indexOf(':', end);
    const next = head.indexOf('\r\n', colon);
    fields.push(nameAt(head, end + 2, colon), trimmed(head, colon + 1, next === -1 ? head.length : next));
    end = next;
  }
  return fields;
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

/** Whether a field has this name. The lengths are compared first, because `toLowerCase` creates a string. */
export function isNamed(name: string, lower: string): boolean {
  return name.length === lower.length && name.toLowerCase() === lower;
}

/** Whether a response has a body at all (RFC 9110 §6.4.1). */
export function mayHaveBody(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 304;
}

/** Names for which shared strings are used. Otherwise each request would allocate substrings of its head and hash them in look-ups. */
const usualNames =
  `Host User-Agent Accept Accept-Encoding Accept-Language Authorization Connection Content-Type Content-Length
  Content-Encoding Transfer-Encoding Expect Upgrade Origin Referer Cookie Cache-Control Pragma Date Server Vary ETag Via
  Keep-Alive Last-Modified Location Set-Cookie Retry-After Idempotency-Key Traceparent Tracestate Forwarded X-Forwarded-For
  X-Forwarded-Proto X-Forwarded-Host X-Real-IP X-Request-Id Envelope Envelope-Credentials Envelope-Content-Type`.split(
    /\s+/,
  );

/** Shared strings, looked up by their length and first character. */
class SharedNames {
  readonly #byStart: (string[] | undefined)[] = [];

  constructor(names: readonly string[]) {
    for (const name of names) (this.#byStart[lookupKey(name.length, name.charCodeAt(0))] ??= []).push(name);
  }

  /** The shared string that equals this part of `head`, which is ASCII and not empty; undefined if there is none. */
  at(head: string, from: number, to: number): string | undefined {
    const candidates = this.#byStart[lookupKey(to - from, head.charCodeAt(from))];
    if (candidates === undefined) return undefined;
    for (const name of candidates) if (head.startsWith(name, from)) return name;
    return undefined;
  }
}

function lookupKey(length: number, first: number): number {
  return length * 128 + first;
}

const fieldNames = new SharedNames(usualNames.flatMap((name) => [name, name.toLowerCase()]));
const methods = new SharedNames(http.METHODS);

/** The field name in this part of a head. */
function nameAt(head: string, from: number, to: number): string {
  return fieldNames.at(head, from, to) ?? head.slice(from, to);
}

/** The method at the beginning of a head; undefined if there is no such method. */
export function methodAt(head: string, to: number): string | undefined {
  return methods.at(head, 0, to);
}

/** The status line for each status. */
const statusLines = Array.from(
  { length: 600 },
  (_, status) => `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'Other'}`,
);

/**
 * The head of a response, including the empty line at its end. It is checked against the grammar that is also used to read responses, so
 * that no value can add a field or a second response.
 *
 * @param fields flat list of names and values; characters are bytes
 * @param more   further lines, each preceded by CRLF
 * @throws if a name or value is not valid
 */
export function responseHead(status: number, fields: readonly string[], more: string): string {
  let head = statusLines[status] ?? '';
  for (let i = 0; i + 1 < fields.length; i += 2) head += `\r\n${fields[i] as string}: ${fields[i + 1] as string}`;
  // If a value contains a line end, the head may still have the right form, but it has one line too many.
  if (!responseHeadForm.test(head) || countLines(head) !== 1 + fields.length / 2) {
    throw new Error(`the head of a response with status ${status} is not valid`);
  }
  return `${head}${more}\r\n\r\n`;
}

function countLines(head: string): number {
  let lines = 1;
  for (let at = head.indexOf('\r\n'); at !== -1; at = head.indexOf('\r\n', at + 2)) lines += 1;
  return lines;
}

/** How the length of a body in bytes is stated. `none`: no body follows, even if a length of 0 is stated. */
export type BodyFraming =
  | { readonly type: 'none'; readonly length: 0 | undefined }
  | { readonly type: 'sized'; readonly length: number }
  | { readonly type: 'chunked'; readonly length: undefined };

export const unstated: BodyFraming = { type: 'none', length: undefined };
const empty: BodyFraming = { type: 'none', length: 0 };
const chunked: BodyFraming = { type: 'chunked', length: undefined };

/**
 * The framing that a head states.
 *
 * @returns `malformed` if the length is not valid or a second framing is stated; `ambiguous` if recipients may disagree on the coding
 */
export function readFraming(fields: readonly string[], minor: 0 | 1): BodyFraming | 'malformed' | 'ambiguous' {
  let framing = unstated;
  let isAmbiguous = false;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (isNamed(name, 'content-length')) {
      if (framing !== unstated || !lengthForm.test(value)) return 'malformed';
      const length = Number(value);
      framing = length === 0 ? empty : { type: 'sized', length };
    } else if (isNamed(name, 'transfer-encoding')) {
      if (framing !== unstated && framing !== chunked) return 'malformed';
      // Ambiguous: codings other than chunked, a coding stated twice, and chunks in HTTP/1.0 (RFC 9112 §6.1).
      isAmbiguous ||= framing === chunked || minor === 0 || value.toLowerCase() !== 'chunked';
      framing = chunked;
    }
  }
  return isAmbiguous ? 'ambiguous' : framing;
}

const keepAliveForm = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i;

/** Whether the sender allows another message on the connection after this one. */
export function keepsAlive(fields: readonly string[], minor: 0 | 1): boolean {
  let keepAlive = minor === 1;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (!isNamed(fields[i] as string, 'connection')) continue;
    const value = fields[i + 1] as string;
    // If in doubt, end the connection. Any value that another recipient might take for `close` counts as `close`.
    if (/\bclose\b/i.test(value)) return false;
    if (keepAliveForm.test(value)) keepAlive = true;
  }
  return keepAlive;
}
