/**
 * A strict parser of HTTP/1.1 messages (RFC 9112) that is independent of the sidecar's. Whatever it rejects, no other parser may accept as
 * a message. Each character of a string is one byte.
 */

type Header = readonly [name: string, value: string];

export interface Head {
  readonly startLine: string;
  /** The names are in lower case. */
  readonly headers: readonly Header[];
  /** The position at which the body begins. */
  readonly end: number;
}

/** `incomplete` means that the text could still become a message if more bytes arrive. */
export type Unread = 'incomplete' | 'faulty';

const headerLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/;

/** Reads the start line and the headers. */
export function readHead(text: string, at: number): Head | Unread {
  const end = text.indexOf('\r\n\r\n', at);
  if (end === -1) return 'incomplete';
  const [startLine = '', ...lines] = text.slice(at, end).split('\r\n');
  const headers: Header[] = [];
  for (const line of lines) {
    const match = headerLine.exec(line);
    if (match === null) return 'faulty';
    headers.push([(match[1] ?? '').toLowerCase(), (match[2] ?? '').replaceAll(/^[\t ]+|[\t ]+$/g, '')]);
  }
  return { startLine, headers, end: end + 4 };
}

/** All values of a header. */
export function valuesOf({ headers }: Pick<Head, 'headers'>, name: string): string[] {
  return headers.flatMap(([each, value]) => (each === name ? [value] : []));
}

/** How a message states the end of its body (RFC 9112 §6.3), if it does so unambiguously. */
export function framingOf(head: Head): number | 'chunked' | 'unstated' | 'faulty' {
  const lengths = valuesOf(head, 'content-length');
  const codings = valuesOf(head, 'transfer-encoding');
  if (lengths.length + codings.length > 1) return 'faulty';
  const [length] = lengths;
  if (length !== undefined) return /^\d{1,18}$/.test(length) ? Number(length) : 'faulty';
  const [coding] = codings;
  if (coding === undefined) return 'unstated';
  return coding.toLowerCase() === 'chunked' && !head.startLine.includes('HTTP/1.0') ? 'chunked' : 'faulty';
}

export interface Body {
  readonly body: string;
  /** The position at which the next message begins. */
  readonly end: number;
}

/** Reads a body whose length is stated. */
export function readSized(text: string, at: number, length: number): Body | Unread {
  return text.length - at < length ? 'incomplete' : { body: text.slice(at, at + length), end: at + length };
}

/**
 * Reads a chunked body, including its trailers.
 *
 * @param trailerLine the form of a trailer; trailers that are dropped without being read may have any form
 */
export function readChunked(text: string, at: number, trailerLine = headerLine): Body | Unread {
  let body = '';
  let from = at;
  for (;;) {
    const lineEnd = text.indexOf('\r\n', from);
    if (lineEnd === -1) return 'incomplete';
    const size = /^([0-9A-Fa-f]{1,12})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/.exec(text.slice(from, lineEnd))?.[1];
    if (size === undefined) return 'faulty';
    const length = Number.parseInt(size, 16);
    from = lineEnd + 2;
    if (length === 0) return readTrailers(text, from, body, trailerLine);
    const chunkEnd = from + length;
    if (text.length < chunkEnd + 2) return 'incomplete';
    if (text.slice(chunkEnd, chunkEnd + 2) !== '\r\n') return 'faulty';
    body += text.slice(from, chunkEnd);
    from = chunkEnd + 2;
  }
}

function readTrailers(text: string, at: number, body: string, line: RegExp): Body | Unread {
  if (text.startsWith('\r\n', at)) return { body, end: at + 2 };
  const end = text.indexOf('\r\n\r\n', at);
  if (end === -1) return 'incomplete';
  const lines = text.slice(at, end).split('\r\n');
  return lines.every((each) => line.test(each)) ? { body, end: end + 4 } : 'faulty';
}
