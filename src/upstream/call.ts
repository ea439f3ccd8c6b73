import type { ResponseEvents } from '../http1/parse/response-reader.ts';

/** A request to the upstream. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, as received. */
  readonly target: string;
  /**
   * Flat list of names and values as the request reader accepts them. Contains only end-to-end headers. `Host` may be among them; `Expect`
   * never is.
   */
  readonly headers: readonly string[];
  readonly body: Buffer | StreamedBody | undefined;
  /** Whether the `X-Request-Id` was generated at random, so that no earlier request has the same one. Default: false. */
  readonly idIsNew?: boolean;
  /** The owner whose turn the connection waits for after a lot of data has arrived on it. Default: the request itself. */
  readonly turnOwner?: object;
}

/** A request's body that is forwarded as it arrives. */
export interface StreamedBody {
  /** Writes all bytes of the body and then its end; pauses while `write` returns false. Called at most once. */
  start(writer: BodyWriter): void;
  /** Called when there is room again after `write` has returned false. */
  resume(): void;
  /** Called when the rest of the body is not needed. */
  stop(): void;
}

export interface BodyWriter {
  /**
   * @param whenWritten called once, when nothing reads the chunk any more
   * @returns false if nothing more may be written before `resume` is called
   */
  write(chunk: Buffer, whenWritten?: () => void): boolean;
  end(): void;
}

/** Why there is no complete response. */
export interface UpstreamFailure {
  readonly code: 'upstream_unavailable' | 'upstream_timeout' | 'overloaded';
  /** The error's own code, for the log: ECONNREFUSED, ECONNCLOSED, BAD_HEAD, … Never the error's message, which may contain addresses. */
  readonly cause: string;
}

/** Receives the response from the upstream. After `onEnd`, `onFailure` or `onError`, none of its methods is called again. */
export interface ResponseHandler extends ResponseEvents {
  /** The response is complete. */
  onEnd(): void;
  onFailure(failure: UpstreamFailure): void;
  /** One of the other methods has thrown, so the call is over. */
  onError(error: unknown): void;
}

/** A request to the upstream that is in progress. */
export interface UpstreamCall {
  pause(): void;
  resume(): void;
  /** Ends the request. The handler's methods are not called again. */
  abort(): void;
}

/** One request, the connection on which it is sent, and the handler of its response. */
export class Call implements UpstreamCall {
  readonly method: string;
  /** The request's `X-Request-Id`; empty if it has none. */
  readonly id: string;
  readonly idIsNew: boolean;
  /**
   * The account whose secret key came with the request. Any client with a secret key of this account may see the response. Empty if no
   * secret key came with the request. Then only the client that sent the request may see the response, because anyone may have a public
   * key.
   */
  readonly owner: string;
  /** Request line, all headers and the empty line. */
  readonly head: string;
  readonly body: UpstreamRequest['body'];
  /** Whether a streamed body is sent in chunks. Otherwise, the head states its length. */
  readonly chunked: boolean;
  readonly handler: ResponseHandler;
  readonly turnOwner: object;
  /** The connection that the request was sent on. */
  connection: UpstreamCall | undefined;
  closed = false;

  /** @param authority the value of `Host` if the request has none */
  constructor(request: UpstreamRequest, authority: string, handler: ResponseHandler) {
    const { method, target, headers, body, idIsNew = false } = request;
    this.turnOwner = request.turnOwner ?? this;
    this.method = method;
    this.idIsNew = idIsNew;
    this.body = body;
    this.handler = handler;
    // Names and values have passed the grammar of requests, so they contain no line breaks.
    let head = `${method} ${target} HTTP/1.1\r\n`;
    let sized = false;
    let hosted = false;
    let id = '';
    let account = '';
    let isSecret = false;
    for (let i = 0; i + 1 < headers.length; i += 2) {
      const name = headers[i] as string;
      if (name === 'Content-Length') sized = true;
      else if (name === 'Host') hosted = true;
      else if (name === 'X-Request-Id') id = headers[i + 1] as string;
      else if (name === 'X-Account-Id') account = headers[i + 1] as string;
      else if (name === 'X-Api-Key-Kind') isSecret = headers[i + 1] === 'secret';
      head += `${name}: ${headers[i + 1] as string}\r\n`;
    }
    this.id = id;
    this.owner = isSecret ? account : '';
    // A request over HTTP/1.0 may lack `Host`, but is forwarded over HTTP/1.1.
    if (!hosted) head += `Host: ${authority}\r\n`;
    this.chunked = body !== undefined && !sized;
    this.head = head + (this.chunked ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n');
  }

  /**
   * Whether the request may be sent again although it may have reached the upstream. This is allowed only if the request has a safe method
   * and no body (RFC 9110 §9.2.2). No request that could make a payment is retryable.
   */
  get isRetryable(): boolean {
    const { method } = this;
    return this.body === undefined && (method === 'GET' || method === 'HEAD' || method === 'OPTIONS');
  }

  pause(): void {
    if (!this.closed) this.connection?.pause();
  }

  resume(): void {
    if (!this.closed) this.connection?.resume();
  }

  abort(): void {
    this.#end(() => this.connection?.abort());
  }

  onEnd(): void {
    this.#end(() => this.handler.onEnd());
  }

  onFailure(failure: UpstreamFailure): void {
    this.#end(() => this.handler.onFailure(failure));
  }

  onError(error: unknown): void {
    this.#end(() => this.handler.onError(error));
  }

  /** Ends the call. Has no effect if it has already ended. */
  #end(report: () => void): void {
    if (this.closed) return;
    this.closed = true;
    if (isStreamed(this.body)) this.body.stop();
    try {
      report();
    } catch (error) {
      this.handler.onError(error);
    }
  }
}

export function isStreamed(body: UpstreamRequest['body']): body is StreamedBody {
  return body !== undefined && !Buffer.isBuffer(body);
}
