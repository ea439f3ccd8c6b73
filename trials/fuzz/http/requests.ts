import { framingOf, readChunked, readHead, readSized, type Head, type Unread } from './message.ts';

/** A strictly parsed request. */
export interface Request extends Head {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly body: string;
}

// Several spaces between the parts count as one (RFC 9112 §3). A forwarded request must have exactly one.
const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) +([!-~\x80-\xff]+) +HTTP\/(1\.[01])$/;

/** Parses the request that begins at an offset. The next request begins at its `end`. */
export function readRequest(text: string, at = 0): Request | Unread {
  const head = readRequestHead(text, at);
  if (typeof head === 'string') return head;
  const framing = framingOf(head);
  if (framing === 'faulty') return 'faulty';
  const read =
    framing === 'chunked'
      ? readChunked(text, head.end)
      : readSized(text, head.end, framing === 'unstated' ? 0 : framing);
  return typeof read === 'string' ? read : { ...head, ...read };
}

/** Parses only the head of a request. */
function readRequestHead(text: string, at: number): Request | Unread {
  let from = at;
  // RFC 9112 §2.2: empty lines before a request line are ignored. Like Node's parser, this one also ignores a lone CR
  // or LF.
  while (text[from] === '\r' || text[from] === '\n') from += 1;
  const head = readHead(text, from);
  if (typeof head === 'string') return head;
  const [, method, target, version] = requestLine.exec(head.startLine) ?? [];
  if (method === undefined || target === undefined || version === undefined) return 'faulty';
  return { ...head, method, target, version, body: '' };
}

/** All requests that a connection carries. */
export interface Requests {
  readonly requests: readonly Request[];
  /** The remaining bytes, which are not a request. */
  readonly rest: string;
  /** The head of these remaining bytes, if they have one. It may be refused because of its content. */
  readonly broken: Request | undefined;
}

export function readRequests(text: string): Requests {
  const requests: Request[] = [];
  let at = 0;
  while (at < text.length) {
    const request = readRequest(text, at);
    if (typeof request === 'string') {
      const head = readRequestHead(text, at);
      return { requests, rest: text.slice(at), broken: typeof head === 'string' ? undefined : head };
    }
    requests.push(request);
    at = request.end;
  }
  return { requests, rest: '', broken: undefined };
}
