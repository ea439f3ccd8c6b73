import type { UpstreamFailure } from './failure.ts';
import type { ResponseEvents } from './response-parser.ts';

/** What is sent to the upstream. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  /** Flat list of names and values: end-to-end headers only, `Host` among them, no `Expect`, valid by Node's parser. */
  readonly headers: readonly string[];
  readonly body: Buffer | StreamedBody | undefined;
}

/** A request's body that goes on as it comes. */
export interface StreamedBody {
  /** Gives all its bytes and then its end to `sink`; pauses when `write` says that it is full. Called once at most. */
  start(sink: BodySink): void;
  /** The sink takes more again. */
  resume(): void;
  /** No more is wanted of it. */
  stop(): void;
}

export interface BodySink {
  /** @returns false if no more is to be written before `resume` */
  write(chunk: Buffer): boolean;
  end(): void;
}

/** Receives the response of the upstream. After `onEnd`, `onFailure` or `onError` nothing more is called. */
export interface ResponseHandler extends ResponseEvents {
  /** The response is complete. */
  onEnd(): void;
  onFailure(failure: UpstreamFailure): void;
  /** One of the other methods has thrown: the call is over. */
  onError(error: unknown): void;
}

/** One request under way. */
export interface UpstreamCall {
  pause(): void;
  resume(): void;
  /** Ends the exchange with the upstream; the handler is not called any more. */
  abort(): void;
}

/** One request, the connection it is sent on, and the handler of its response. */
export class Call implements UpstreamCall {
  readonly method: string;
  /** Request line, all headers and the empty line. */
  readonly head: string;
  readonly body: UpstreamRequest['body'];
  /** Whether a streamed body goes out in chunks; otherwise the head states its length. */
  readonly chunked: boolean;
  readonly handler: ResponseHandler;
  /** The connection it was sent on. */
  connection: UpstreamCall | undefined;
  over = false;

  /** @param authority for `Host` if the request has none */
  constructor(request: UpstreamRequest, authority: string, handler: ResponseHandler) {
    const { method, target, headers, body } = request;
    this.method = method;
    this.body = body;
    this.handler = handler;
    // Header names and values have come through Node's parser: there is no line break in them.
    let head = `${method} ${target} HTTP/1.1\r\n`;
    let sized = false;
    let hosted = false;
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = headers[i] as string;
      if (name === 'Content-Length') sized = true;
      else if (name === 'Host') hosted = true;
      head += `${name}: ${headers[i + 1] as string}\r\n`;
    }
    // HTTP/1.0 may come without one, but what goes out is HTTP/1.1.
    if (!hosted) head += `Host: ${authority}\r\n`;
    this.chunked = body !== undefined && !sized;
    this.head = head + (this.chunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n');
  }

  /**
   * Whether it may be sent once more although it may have reached the upstream: only if it is safe by its method and has no
   * body (RFC 9110 §9.2.2). Nothing that could be a payment is.
   */
  get isRepeatable(): boolean {
    const { method } = this;
    return this.body === undefined && (method === 'GET' || method === 'HEAD' || method === 'OPTIONS');
  }

  pause(): void {
    if (!this.over) this.connection?.pause();
  }

  resume(): void {
    if (!this.over) this.connection?.resume();
  }

  abort(): void {
    if (this.over) return;
    this.#end();
    this.connection?.abort();
  }

  complete(): void {
    if (this.over) return;
    this.#end();
    try {
      this.handler.onEnd();
    } catch (error) {
      this.handler.onError(error);
    }
  }

  /** @param cause an error's code, for the log */
  fail(code: UpstreamFailure['code'], cause: string): void {
    if (this.over) return;
    this.#end();
    try {
      this.handler.onFailure({ code, cause });
    } catch (error) {
      this.handler.onError(error);
    }
  }

  /** A method of the handler has thrown. */
  failHandling(error: unknown): void {
    if (this.over) return;
    this.#end();
    this.handler.onError(error);
  }

  #end(): void {
    this.over = true;
    if (isStreamed(this.body)) this.body.stop();
  }
}

export function isStreamed(body: UpstreamRequest['body']): body is StreamedBody {
  return body !== undefined && !Buffer.isBuffer(body);
}
