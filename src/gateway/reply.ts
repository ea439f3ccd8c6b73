import type { ServerResponse } from 'node:http';
import type { Timeouts } from '../config/config.ts';
import { refusalOf, type RefusalCode } from '../errors.ts';
import { lingerTime } from '../http.ts';
import type { UpstreamCall, UpstreamFailure } from '../upstream/call.ts';
import { mayHaveBody } from '../upstream/response-parser.ts';
import type { Linked } from './linked-list.ts';
import { problem, Refusal, refusalHeaders } from './refusal.ts';
import type { RequestFacts } from './request.ts';
import type { Sealing } from './sealing.ts';

/** A refused body of up to this many bytes is read to its end, so that the connection can be reused. */
const worthReading = 65_536;

/** Up to this many bytes, a string in the same write as the head costs less than a buffer. */
const maxSingleWrite = 16_384;

/** The configured timeout for each kind of wait. */
const timeoutOf = {
  request_timeout: 'request',
  upstream_timeout: 'upstream',
  client_stalled: 'idle',
} as const satisfies Readonly<Record<string, keyof Timeouts>>;

/** The meaning of an expired deadline. */
type Expiry = keyof typeof timeoutOf | 'rest_unread';

/**
 * The response to one request, from the request's head to the end of the response, and what it waits for. It is over when
 * `raw` has closed.
 */
export class Reply implements Linked<Reply> {
  /** Its neighbours among the active replies. */
  previous: Reply | undefined;
  next: Reply | undefined;

  readonly request: RequestFacts;
  readonly raw: ServerResponse;
  /** The exchange with the upstream, if there is one. */
  call: UpstreamCall | undefined;
  /** The deadline of the current wait, on `performance.now()`'s scale. */
  deadline = Infinity;
  /** Set on enveloped routes. Refusals are then sealed too, if their row says so. */
  sealing: Sealing | undefined;
  refusal: RefusalCode | undefined;
  /** An unexpected error; logged at the end. */
  error: unknown;
  /** Whether the response is complete or the client has left. */
  over = false;
  /** Whether the connection has become a WebSocket. */
  upgraded = false;
  #expiry: Expiry = 'request_timeout';
  #aborted = false;
  #lingering = false;

  constructor(request: RequestFacts, raw: ServerResponse) {
    this.request = request;
    this.raw = raw;
  }

  /** Whether the response has begun. */
  get begun(): boolean {
    return this.raw.headersSent;
  }

  /** The status that the client got; undefined if it left before the response was complete. */
  get status(): number | undefined {
    const { statusCode, writableFinished, writableLength } = this.raw;
    const complete = writableFinished || (this.#lingering && writableLength === 0);
    // An upgraded connection has a status without a response; a broken response has one from its head on.
    return complete || statusCode === 101 || (this.#aborted && this.begun) ? statusCode : undefined;
  }

  /** Whether a response with this status has a body. */
  mayHaveBody(status: number): boolean {
    return mayHaveBody(this.request.head?.method ?? '', status);
  }

  /** From now on the connection is closed with the response. */
  drain(): void {
    this.raw.shouldKeepAlive = false;
  }

  /** Sets the deadline of the wait that begins now. @param now on `performance.now()`'s scale */
  setDeadline(expiry: Expiry, now = performance.now()): void {
    const { stats, rules } = this.request;
    stats.wait(now);
    this.deadline = now + (expiry === 'rest_unread' ? lingerTime : rules.timeouts[timeoutOf[expiry]]);
    this.#expiry = expiry;
  }

  /** Called by the sweep when the deadline has passed. */
  expire(): void {
    this.deadline = Infinity;
    if (this.#expiry === 'rest_unread') {
      this.#end(undefined, performance.now());
      // Nothing more is read of the request: the connection ends when the response is out.
      this.request.raw.socket.destroySoon();
      return;
    }
    if (this.#expiry === 'upstream_timeout') this.request.stats.upstreamEnds();
    this.call?.abort();
    if (this.#expiry === 'client_stalled') this.abort();
    else this.refuseOrAbort(this.#expiry);
  }

  /** The upstream has switched protocols: the connection belongs to the WebSocket from now on. */
  upgrade(): void {
    const { socket } = this.request.raw;
    this.deadline = Infinity;
    this.upgraded = true;
    this.raw.statusCode = 101;
    this.raw.detachSocket(socket);
    socket.once('close', () => this.raw.emit('close'));
    socket.setTimeout(this.request.rules.timeouts.idle, () => socket.destroy());
  }

  /** Releases the request's resources and ends its pending work. */
  close(): void {
    this.over = true;
    this.request.reservation.release();
    this.request.reservation.leaveSlot();
    this.call?.abort();
  }

  upstreamFails(failure: UpstreamFailure): void {
    this.request.stats.upstreamEnds();
    this.request.stats.upstreamFailure = failure;
    this.refuseOrAbort(failure.code);
  }

  /** Node's parser rejected the bytes that should be the request's body. */
  bodyFails(code: RefusalCode): void {
    if (this.refusal !== undefined) return;
    this.call?.abort();
    this.refuseOrAbort(this.request.head === undefined ? 'ambiguous_request' : code);
  }

  /** Ends the request after an unexpected error. */
  fail(error: unknown): void {
    this.error = error;
    this.call?.abort();
    try {
      if (!this.begun) {
        this.refuse(new Refusal('internal_error'));
        return;
      }
    } catch {
      // The refusal may fail for the same reason.
    }
    this.abort();
  }

  /** Refuses the request, or aborts the response if it has begun. */
  refuseOrAbort(code: RefusalCode): void {
    this.request.stats.resume();
    if (this.begun) this.abort();
    else this.refuse(new Refusal(code));
  }

  /** Ends the client's connection so that an incomplete response cannot be taken for a whole one. */
  abort(): void {
    this.#aborted = true;
    const { socket, httpVersionMinor } = this.request.raw;
    // A response to HTTP/1.0 may be framed by the connection's end; only a reset tells a broken one from a whole one.
    if (httpVersionMinor === 0 && !('encrypted' in socket)) socket.resetAndDestroy();
    else socket.destroy();
  }

  /** Adds the headers that each response carries to a flat list. */
  addHeaders(headers: string[]): void {
    headers.push('X-Request-Id', this.request.id);
    if (this.sealing?.inGrace === true) headers.push('Envelope-Credentials', this.sealing.credentials);
  }

  /**
   * Begins the response. If the request is incomplete, the response closes the connection, because the rest may never
   * arrive.
   *
   * @param headers flat list, to which the headers of each response are added
   * @param now     on `performance.now()`'s scale
   */
  writeHead(status: number, headers: string[], now: number): void {
    if (this.request.bodyPending) this.raw.shouldKeepAlive = false;
    this.#writeHead(status, headers, now);
  }

  /** Sends a whole response; a string's characters are ASCII. */
  send(status: number, headers: string[], body: string | Buffer): void {
    const sent = this.request.head?.method === 'HEAD' ? undefined : body;
    if (sent !== undefined) headers.push('Content-Length', String(sent.length));
    const now = performance.now();
    this.#writeHead(status, headers, now);
    this.end(sent, now);
  }

  #writeHead(status: number, headers: string[], now: number): void {
    // Node discards what arrives together with a request whose Upgrade is ignored. The response to a later request would be
    // taken for that to a discarded one.
    if (this.request.head?.upgrade !== undefined) this.raw.shouldKeepAlive = false;
    this.addHeaders(headers);
    this.request.stats.respond(now);
    this.raw.writeHead(status, headers);
  }

  /**
   * Ends the response; the client has `timeouts.idle` to read the rest. If the request is still arriving, its rest is read for
   * a while and discarded: closing a connection on which the client still sends resets it, and the reset can overtake the
   * response (RFC 9112 §9.6).
   *
   * @param now on `performance.now()`'s scale
   */
  end(last: Buffer | string | undefined, now: number): void {
    const { bodyPending, raw, reservation, stats } = this.request;
    stats.bytesOut += last?.length ?? 0;
    if (!bodyPending) {
      this.#end(last, now);
      return;
    }
    if (last === undefined) this.raw.flushHeaders();
    else this.raw.write(last, 'latin1');
    this.#lingering = true;
    // A client that sends heads without bodies must not occupy resources.
    reservation.leaveSlot();
    this.setDeadline('rest_unread', now);
    raw
      .removeAllListeners('data')
      .once('end', () => this.#end(undefined, performance.now()))
      .resume();
  }

  #end(last: Buffer | string | undefined, now: number): void {
    this.setDeadline('client_stalled', now);
    if (last === undefined) this.raw.end();
    // A string goes out in one write with the head, which is cheaper than copying the bytes.
    else if (Buffer.isBuffer(last) && last.length <= maxSingleWrite) this.raw.end(last.toString('latin1'), 'latin1');
    else this.raw.end(last, 'latin1');
  }

  /** Sends a refusal, sealed if its row and this request ask for it. */
  refuse({ code, details }: Refusal): void {
    if (this.begun) return;
    const { request } = this;
    this.refusal = code;
    request.reservation.release();
    const row = refusalOf(code);
    // A response to HEAD has no body to seal.
    const sealer = row.sealed === true && request.head?.method !== 'HEAD' ? this.sealing?.sealer : undefined;
    if (sealer === undefined && this.sealing !== undefined) {
      this.sealing = { sealer: undefined, inGrace: this.sealing.inGrace, credentials: 'none' };
    }
    const headers = refusalHeaders(code, details, request.allowsCors);
    let body = problem(code, request.id, request.rules.errorsPage, details.hint);
    if (sealer === undefined) {
      headers.push('Content-Type', 'application/problem+json');
    } else {
      body = sealer.seal(Buffer.from(body));
      headers.push('Content-Type', 'application/json', 'Envelope', 'sealed');
      headers.push('Envelope-Content-Type', 'application/problem+json');
    }
    if (row.closes === true || this.#restUnwanted) this.raw.shouldKeepAlive = false;
    this.send(row.status, headers, body);
  }

  /** Whether the rest of the request is not worth reading, so that its connection is better closed. */
  get #restUnwanted(): boolean {
    const { bodyPending, head } = this.request;
    if (!bodyPending || head === undefined) return bodyPending;
    return head.body.contentLength === undefined || head.body.contentLength > worthReading || head.expectsContinue;
  }
}
