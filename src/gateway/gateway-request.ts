import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Encryption } from '../accounts/account.ts';
import { kindOf, type EnvironmentName } from '../accounts/api-key.ts';
import type { KeyHolder } from '../accounts/directory.ts';
import type { EnvelopeSealer, OpenReason } from '../envelope/codec.ts';
import type { ReportableCode } from '../config/config.ts';
import { refusalOf, type RefusalCode } from '../errors.ts';
import type { RequestTrace } from '../telemetry/tracing.ts';
import type { ResponseHandler, UpstreamCall, UpstreamRequest } from '../upstream/call.ts';
import type { UpstreamFailure } from '../upstream/failure.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { Share, type Budgets, type Claimant } from './budgets.ts';
import type { ClientConnection } from './client-connection.ts';
import { timeFor, type Expiry } from './deadline.ts';
import type { Linked } from './linked-list.ts';
import { problem, refusalHeaders, type RefusalDetails } from './refusal.ts';
import type { RequestHead } from './request-head.ts';
import { RequestTimes } from './request-times.ts';
import type { Rules } from './rules.ts';
import type { SealingChoice } from './sealing.ts';

/** A refused body up to this size is worth reading to its end, because the connection can then be used again. */
const worthReading = 65_536;

/** Bytes up to which a string costs less than a buffer. */
const inOneWrite = 16_384;

/**
 * One request of a merchant from its head to the end of its response: what is known of it (for the access line and the
 * metrics), what is waited for, and the ways to answer. Created at the head, over when `res` has closed.
 */
export class GatewayRequest implements Linked<GatewayRequest> {
  /** Its neighbours among the requests in flight. */
  previous: GatewayRequest | undefined;
  next: GatewayRequest | undefined;

  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly rules: Rules;
  /** What it has taken of the budgets. */
  readonly share: Share;
  readonly times = new RequestTimes();

  id = '';
  /** Undefined until the guard has passed it. */
  head: RequestHead | undefined;
  environment: EnvironmentName | undefined;
  /** The metric label: a configured pattern, `unlisted`, or `none` before routing. */
  route = 'none';
  holder: KeyHolder | undefined;
  /** How the account encrypts here, decided at the head: what ends now does not end in the middle of a request. */
  encryption: Encryption | undefined;
  /** Present if traces are configured. */
  trace: RequestTrace | undefined;
  /** Refusals that are only reported: the request is let through as if there were no such rule. */
  readonly reported: ReportableCode[] = [];
  /** Whether a browser may read a refusal: the route is open to public keys. */
  openToBrowsers = false;
  /** Present where answers are sealed; what is refused then is sealed too, if its row says so. */
  sealer: EnvelopeSealer | undefined;
  /** During a grace: with which credentials this request is answered. */
  grace: SealingChoice['grace'];

  refusal: RefusalCode | undefined;
  reason: OpenReason | undefined;
  /** Whether its body was an envelope that opened. */
  opened = false;
  upstreamFailure: UpstreamFailure | undefined;
  /** What should never have happened. */
  error: unknown;
  /** Whether its response is complete or its client has left. */
  over = false;
  /** Whether it has become a WebSocket. */
  upgraded = false;
  /** Whether the sidecar itself ended the connection in the middle of the response. */
  brokenOff = false;
  bytesIn = 0;
  bytesOut = 0;
  envelopeTime = 0;

  call: UpstreamCall | undefined;
  deadline = Infinity;
  #expiry: Expiry = 'request_timeout';
  #lingering = false;

  constructor(req: IncomingMessage, res: ServerResponse, connection: ClientConnection, rules: Rules, budgets: Budgets) {
    this.req = req;
    this.res = res;
    this.rules = rules;
    this.share = new Share(budgets, connection);
  }

  /** Takes the guarded head in, and with it the request's id: the client's own where it is acceptable. */
  begin(head: RequestHead | undefined): void {
    this.head = head;
    this.id = head?.requestId ?? randomUUID();
  }

  /** From now on the connection is closed with the response. */
  drain(): void {
    this.res.shouldKeepAlive = false;
  }

  /** Settles how this request is answered. */
  choose({ sealer, grace }: SealingChoice): void {
    this.sealer = sealer;
    this.grace = grace;
  }

  /** Whether the response has begun. */
  get answered(): boolean {
    return this.res.headersSent;
  }

  /** Whether the client was sent all of its response. */
  get answeredInWhole(): boolean {
    return this.res.writableFinished || (this.#lingering && this.res.writableLength === 0);
  }

  /** Gives whom this request waits for its time, from now. */
  wait(expiry: Expiry): void {
    this.deadline = this.times.wait() + timeFor(expiry, this.rules.timeouts);
    this.#expiry = expiry;
  }

  /** Called by the sweep when the deadline has passed. */
  expire(): void {
    this.deadline = Infinity;
    if (this.#expiry === 'rest_unread') {
      this.#end();
      // Nobody watches any more what else comes: the connection ends when the response is out.
      this.req.socket.destroySoon();
      return;
    }
    if (this.#expiry === 'upstream_timeout') this.times.upstreamEnds();
    this.call?.abort();
    if (this.#expiry === 'client_stalled') this.breakOff();
    else this.giveUp(this.#expiry);
  }

  /** Takes note of whose request this is. */
  identify(holder: KeyHolder): void {
    this.holder = holder;
    this.share.identify(kindOf(holder.key.prefix));
  }

  /** Takes a place in flight, a buffered request once its body is whole: heads alone occupy none. False: refused. */
  takePlace(claimant?: Claimant): boolean {
    const hasPlace = this.share.takePlace(claimant);
    if (!hasPlace) this.refuse('overloaded');
    return hasPlace;
  }

  /** Sends this request on; from now on it ends with the upstream's response, with a failure, or when the client leaves. */
  forward(upstream: Upstream, forwarded: UpstreamRequest, response: ResponseHandler): void {
    if (!this.takePlace()) return;
    this.wait('upstream_timeout');
    this.times.forward();
    this.call = upstream.send(forwarded, response);
  }

  /** The end of this request, come what may: gives back what it holds and ends what it still waits for. */
  close(): void {
    this.over = true;
    this.share.release();
    this.share.leavePlace();
    this.call?.abort();
  }

  /** The bytes of its body are no body. */
  bodyFails(code: RefusalCode): void {
    if (this.refusal !== undefined) return;
    this.call?.abort();
    // Without a head the guard has not let it pass.
    this.giveUp(this.head === undefined ? 'ambiguous_request' : code);
  }

  /** Something unforeseen: a response that says no more than that, where there is still one to give. Logged at the end. */
  fail(error: unknown): void {
    this.error = error;
    this.call?.abort();
    try {
      if (!this.answered) {
        this.refuse('internal_error');
        return;
      }
    } catch {
      // What failed may be what a refusal needs, too.
    }
    this.breakOff();
  }

  /** Says that there will be no response, or, where one has begun, that it will not be whole. */
  giveUp(code: RefusalCode): void {
    this.times.resume();
    if (this.answered) this.breakOff();
    else this.refuse(code);
  }

  /** Ends the client's connection so that nobody can take what it got for a whole response. */
  breakOff(): void {
    this.brokenOff = true;
    const { socket } = this.req;
    // A response to HTTP/1.0 may be framed by the connection's end; only a reset tells a broken one from a whole one.
    if (this.req.httpVersionMinor === 0 && !('encrypted' in socket)) socket.resetAndDestroy();
    else socket.destroy();
  }

  /** The headers that each response carries, as a flat list to be continued. */
  responseHeaders(): string[] {
    const headers = ['X-Request-Id', this.id];
    if (this.grace !== undefined) headers.push('Envelope-Credentials', this.grace);
    return headers;
  }

  /** Begins the response. One that comes before the end of the request closes the connection: its rest may never come. */
  writeHead(status: number, headers: string[]): void {
    if (this.bodyPending) this.res.shouldKeepAlive = false;
    this.times.respond();
    this.res.writeHead(status, headers);
  }

  /** Answers with a whole body; a string's characters are ASCII. */
  answer(status: number, headers: string[], body: string | Buffer): void {
    const sent = this.head?.method === 'HEAD' ? undefined : body;
    if (sent !== undefined) {
      headers.push('Content-Length', String(sent.length));
      this.bytesOut += sent.length;
    }
    this.times.respond();
    this.res.writeHead(status, headers);
    this.end(sent);
  }

  /**
   * Ends the response; what the client has not taken yet it may take within `timeouts.idle`. Where the request is still
   * coming, its rest is read for a while and thrown away: closing a connection on which the client still sends resets
   * it, and the reset can overtake the response (RFC 9112 §9.6).
   */
  end(last?: Buffer | string): void {
    if (!this.bodyPending) {
      this.#end(last);
      return;
    }
    if (last === undefined) this.res.flushHeaders();
    else this.res.write(last, 'latin1');
    this.#lingering = true;
    // Whoever sends heads without their bodies must not keep others out.
    this.share.leavePlace();
    this.wait('rest_unread');
    this.req
      .removeAllListeners('data')
      .once('end', () => this.#end())
      .resume();
  }

  #end(last?: Buffer | string): void {
    this.wait('client_stalled');
    if (last === undefined) this.res.end();
    // A string goes out in one write with the head, which is cheaper than copying the bytes.
    else if (Buffer.isBuffer(last) && last.length <= inOneWrite) this.res.end(last.toString('latin1'), 'latin1');
    else this.res.end(last, 'latin1');
  }

  /** Answers with a refusal, sealed where its row and this request ask for it. */
  refuse(code: RefusalCode, details: RefusalDetails = {}): void {
    if (this.answered) return;
    this.refusal = code;
    this.share.release();
    const row = refusalOf(code);
    // A response to HEAD has no body to seal.
    const sealer = row.sealed && this.head?.method !== 'HEAD' ? this.sealer : undefined;
    if (sealer === undefined && this.grace !== undefined) this.grace = 'none';
    const headers = this.responseHeaders();
    let body = problem(code, this.id, this.rules.errorsPage, details.hint);
    if (sealer === undefined) {
      headers.push('Content-Type', 'application/problem+json');
    } else {
      body = sealer.seal(Buffer.from(body));
      headers.push('Content-Type', 'application/json', 'Envelope', 'sealed');
      headers.push('Envelope-Content-Type', 'application/problem+json');
    }
    headers.push(...refusalHeaders(code, details, this.openToBrowsers));
    if (row.closes === true || this.#restUnwanted) this.res.shouldKeepAlive = false;
    this.answer(row.status, headers, body);
  }

  /** Whether some of the request's body has not been read yet. */
  get bodyPending(): boolean {
    return this.head?.hasBody !== false && !this.req.complete;
  }

  /** Whether the rest of the request is not worth reading, so that its connection is better closed. */
  get #restUnwanted(): boolean {
    if (!this.bodyPending || this.head === undefined) return this.bodyPending;
    const { contentLength, expectsContinue } = this.head;
    return contentLength === undefined || contentLength > worthReading || expectsContinue;
  }
}
