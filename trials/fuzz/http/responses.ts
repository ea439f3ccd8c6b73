import { framingOf, readChunked, readHead, readSized, valuesOf, type Head, type Unread } from './message.ts';

/** A strictly parsed response. */
export interface Response extends Head {
  readonly status: number;
  readonly body: string;
}

const statusLine = /^HTTP\/1\.[01] (\d{3})(?: [\t\x20-\x7e\x80-\xff]*)?$/;

/**
 * Parses the response that begins at an offset.
 *
 * @param bodyless whether the response has no body, because its request was a HEAD
 * @param ended whether the connection ended cleanly after the text
 */
export function readResponse(text: string, at: number, bodyless: boolean, ended: boolean): Response | Unread {
  const head = readHead(text, at);
  if (typeof head === 'string') return head;
  const status = Number(statusLine.exec(head.startLine)?.[1] ?? 'NaN');
  if (!(status >= 100 && status <= 599)) return 'faulty';
  // RFC 9112 §6.3: an informational response has no body, whatever its headers say.
  if (status < 200) return { ...head, status, body: '' };
  const framing = framingOf(head);
  if (framing === 'faulty') return 'faulty';
  if (status === 204 || status === 304 || bodyless) return { ...head, status, body: '' };
  if (framing === 'unstated') {
    return ended ? { ...head, status, body: text.slice(head.end), end: text.length } : 'incomplete';
  }
  const read = framing === 'chunked' ? readChunked(text, head.end, /^/) : readSized(text, head.end, framing);
  return typeof read === 'string' ? read : { ...head, status, ...read };
}

/** Whether the connection ends with this response. */
export function isLast(response: Response): boolean {
  return valuesOf(response, 'connection').some((value) => /\bclose\b/i.test(value));
}
