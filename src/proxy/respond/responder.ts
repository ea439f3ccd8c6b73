import type { KeyDirectory } from '../../accounts/key-directory.ts';
import { Refusal, findRefusal } from '../../errors.ts';
import type { ExchangeHandler, ExchangeOutcome, ServerExchange } from '../../http1/exchange.ts';
import type { RequestFault } from '../../http1/parse/request-reader.ts';
import type { Linked } from '../../linked-list.ts';
import type { UpstreamCall, UpstreamFailure } from '../../upstream/call.ts';
import type { ClosingReason } from '../../telemetry/metrics.ts';
import type { Exchange } from '../admit/exchange.ts';
import type { Sealing } from '../admit/sealing.ts';
import type { GatewaySnapshot } from '../admit/snapshot.ts';
import type { ClientConnection } from '../capacity/client-connection.ts';
import type { LimitName } from '../capacity/parts.ts';
import type { Reservation } from '../capacity/reservation.ts';
import { problemDocument, refusalCodes, refusalFields } from './problem.ts';
import { timeoutNames, Timing, type Wait } from './timing.ts';
import type { MonotonicMs } from '../../times.ts';

/** The body of a refused request is read to its end if it has at most this many bytes, so that the connection can be reused. */
const maxDiscardedBody = 65_536;

/** The only writer of the response to a request. It also sets the deadline for whatever the request is waiting for. */
export class Responder implements ExchangeHandler, Linked<Responder> {
  /** The neighbours in the list of requests in progress. */
  previous: Responder | undefined;
  next: Responder | undefined;

  readonly http: ServerExchange;
  readonly client: ClientConnection;
  /** The configuration at the time the request began. */
  readonly snapshot: GatewaySnapshot;
  readonly reservation: Reservation;
  readonly timing: Timing;
  /** What is known about the request. Only the steps in ../exchange.ts replace this value, with one that has more facts. */
  exchange: Exchange;
  /** The request to the upstream, until the whole response has been written. */
  call: UpstreamCall | undefined;
  /** The directory in which the request's key is being looked up. */
  asked: KeyDirectory | undefined;
  /** The refusal that was sent. */
  refusal: Refusal | undefined;
  /** Why there is no complete response from the upstream, as an error code for the log. */
  upstreamError: string | undefined;
  /** An unexpected error, which is logged when the exchange ends. */
  error: unknown;
  /** Whether the request's body begins like an envelope although the account does not encrypt. */
  unexpectedEnvelope = false;
  /** The likely mistake in an accepted request in test, for `Envelope-Hint`. ASCII. */
  hint: string | undefined;
  /** How many bytes of the response's body have been written. */
  bytesOut = 0;
  /** Whether the connection has become a WebSocket. */
  upgraded = false;
  /** Whether the request is a WebSocket, or a response that arrives although its head has not been sent yet. A revocation then ends it. */
  lasts = false;
  /** How the exchange ended; undefined while it is in progress. */
  outcome: ExchangeOutcome | undefined;
  /** Called once after `write` has returned false, when the client has read what was written. */
  whenDrained: (() => void) | undefined;
  /** Called at the end of the exchange. */
  whenClosed: (() => void) | undefined;
  readonly #onClose: (responder: Responder) => void;
  #keptBody: Buffer | undefined;
  #bodyTaken = false;
  #wait: Wait = 'request_timeout';

  /** @param onClose called once, when the response is complete, the client has left, or the sidecar has closed the connection */
  constructor(
    http: ServerExchange,
    client: ClientConnection,
    snapshot: GatewaySnapshot,
    exchange: Exchange,
    startedAt: MonotonicMs,
    onClose: (responder: Responder) => void,
  ) {
    this.http = http;
    this.client = client;
    this.snapshot = snapshot;
    this.reservation = client.begin(this, exchange.environment?.name ?? 'none', startedAt);
    this.timing = new Timing(startedAt);
    this.exchange = exchange;
    this.#onClose = onClose;
    http.handler = this;
  }

  /** Whether nothing more can be done for the request: a response has begun, or the client has left. */
  get settled(): boolean {
    return this.http.status !== undefined || this.http.closed;
  }

  /** The status that the client received, even if the response was broken off; undefined if the client left first or no response began. */
  get status(): number | undefined {
    if (this.upgraded) return 101;
    return this.outcome === 'client_left' ? undefined : this.http.status;
  }

  /** Whether the whole body arrived with the head and is still available. */
  get hasWholeBody(): boolean {
    return this.#keptBody !== undefined || this.http.wholeBody !== undefined;
  }

  /**
   * Takes the body that arrived with the head, and reserves its memory.
   *
   * @param outlives whether the body is used after the caller returns to the event loop. If not, the result may be a view of the read
   *   buffer, which the next read overwrites.
   */
  takeWholeBody(outlives: boolean): Buffer | Refusal {
    const kept = this.#keptBody;
    this.#bodyTaken = true;
    if (kept !== undefined) return kept;
    const { wholeBody = Buffer.alloc(0) } = this.http;
    if (!this.reservation.hold(wholeBody.length)) return new Refusal('overloaded');
    return outlives ? Buffer.from(wholeBody) : wholeBody;
  }

  /** Keeps the body that arrived with the head, because the request has to wait. */
  keepBody(): void {
    // A request that has already been sent to the upstream must not be refused because its body cannot be kept.
    const isSent = this.call !== undefined;
    const isDone = isSent || this.#bodyTaken || this.settled || this.exchange.refusal !== undefined;
    if (isDone || this.http.wholeBody === undefined) return;
    const body = this.takeWholeBody(true);
    if (body instanceof Refusal) this.refuse(body);
    else this.#keptBody = body;
  }

  /** Sets the deadline of the wait that begins now. @param now from `performance.now()`, here and below */
  setDeadline(wait: Wait, now = performance.now()): void {
    this.timing.wait(now);
    this.http.deadline = now + this.snapshot.timeouts[timeoutNames[wait]];
    this.#wait = wait;
  }

  onDrain(): void {
    const { whenDrained } = this;
    this.whenDrained = undefined;
    whenDrained?.();
  }

  onDeadline(): void {
    if (this.#wait === 'upstream_timeout') this.timing.endUpstream();
    if (this.#wait === 'request_timeout') this.client.count('timeout');
    if (this.#wait === 'client_stalled') this.abort('timeout');
    else this.refuseOrAbort(new Refusal(this.#wait), 'timeout');
  }

  onClose(outcome: ExchangeOutcome): void {
    this.outcome = outcome;
    this.reservation.end();
    this.client.idle();
    // Do not abort the call after a complete response, because the last bytes of the response may still be being processed.
    if (outcome !== 'complete') this.call?.abort();
    this.whenClosed?.();
    this.#onClose(this);
  }

  upstreamFails({ code, cause }: UpstreamFailure): void {
    this.timing.endUpstream();
    this.upstreamError = cause;
    // With this code, the request was not sent. Clear `call`, so that the refusal says this and the client may send the request again.
    if (code === 'overloaded') this.call = undefined;
    this.refuseOrAbort(new Refusal(code), 'upstream');
  }

  /** Refuses a request whose body has invalid bytes, or breaks off its response. */
  bodyFails(fault: RequestFault): void {
    if (this.refusal !== undefined) return;
    this.client.count('malformed');
    this.refuseOrAbort(new Refusal(refusalCodes[fault]), 'malformed');
  }

  /** Ends the request after an unexpected error. */
  fail(error: unknown): void {
    this.error = error;
    this.call?.abort();
    try {
      this.refuseOrAbort(new Refusal('internal_error'), 'error');
    } catch {
      // The refusal may fail for the same reason.
      this.abort('error');
    }
  }

  /** Refuses the request or, if a response has begun, breaks it off. */
  refuseOrAbort(refusal: Refusal, reason: ClosingReason): void {
    this.timing.resume();
    if (this.http.status === undefined) this.refuse(refusal);
    else this.abort(reason);
  }

  /** Ends the request and gives back what it has taken. The connection closes after the response. */
  giveWay(limit: LimitName): void {
    this.http.keepAlive = false;
    const { tier } = this.reservation.claim;
    this.reservation.exceeded = { limit, shortage: tier === 'anonymous' ? tier : 'public' };
    this.client.count('limit');
    this.refuseOrAbort(new Refusal('overloaded'), 'limit');
    this.reservation.end();
  }

  /** Closes the connection, so that an incomplete response cannot be taken for a complete one. */
  abort(reason: ClosingReason): void {
    if (this.http.closed) return;
    this.client.endsFor(reason);
    this.http.abort();
  }

  /** Sends a refusal, sealed if its row in errors.ts says so and the request has a sealer. */
  refuse(refusal: Refusal): void {
    if (this.settled) return;
    const { exchange, http } = this;
    this.refusal = refusal;
    // `onClose` does not abort the call after a complete response, but nothing more that the core sends, such as a 101, may reach the client.
    this.call?.abort();
    this.reservation.abandon();
    const row = findRefusal(refusal.code);
    const fields = refusalFields(refusal, exchange.allowsCors);
    const body = problemDocument(refusal, {
      requestId: exchange.id,
      errorsPage: this.snapshot.errorsPage,
      mayBeForwarded: this.call !== undefined,
      testElsewhere: exchange.environment?.name === 'live' && exchange.testElsewhere,
    });
    // A response to HEAD has no body to seal.
    const sealer = row.sealed === true && http.head?.method !== 'HEAD' ? exchange.sealing?.sealer : undefined;
    if (row.closes === true || this.#restUnwanted) http.keepAlive = false;
    if (sealer !== undefined) {
      fields.push('Content-Type', 'application/json', 'Envelope', 'sealed');
      fields.push('Envelope-Content-Type', 'application/problem+json');
      this.send(row.status, fields, sealer.seal(body));
    } else {
      fields.push('Content-Type', 'application/problem+json');
      this.send(row.status, fields, body, exchange.sealing && { ...exchange.sealing, credentials: 'none' });
    }
  }

  /** Sends a whole response. If the body is a string, it must be ASCII. */
  send(status: number, fields: string[], body: string | Buffer, sealing = this.exchange.sealing): void {
    const now = performance.now();
    this.#complete(fields, now, sealing);
    if (this.http.mayHaveBody(status)) this.bytesOut += body.length;
    this.setDeadline('client_stalled', now);
    this.http.send(status, fields, body);
    this.#leaveSlot();
  }

  /**
   * Begins the response. If the request is incomplete, the response closes the connection, because the request may never be completed.
   *
   * @param fields flat list; the fields that every response has are added to it
   */
  sendHead(status: number, fields: string[], now: MonotonicMs): void {
    if (!this.http.bodyComplete) this.http.keepAlive = false;
    this.#complete(fields, now, this.exchange.sealing);
    this.http.sendHead(status, fields);
  }

  /** Adds the fields that every response has. */
  #complete(fields: string[], now: MonotonicMs, sealing: Sealing | undefined): void {
    fields.push('X-Request-Id', this.exchange.id);
    if (sealing?.inGrace === true) fields.push('Envelope-Credentials', sealing.credentials);
    if (this.hint !== undefined) fields.push('Envelope-Hint', this.hint);
    this.timing.respond(now);
  }

  /** @returns false if the client must read first; `whenDrained` is called once it has */
  write(piece: Buffer | string): boolean {
    this.bytesOut += piece.length;
    return this.http.write(piece);
  }

  end(last: Buffer | string | undefined, now: MonotonicMs): void {
    this.bytesOut += last?.length ?? 0;
    this.setDeadline('client_stalled', now);
    this.http.end(last);
    this.#leaveSlot();
  }

  #leaveSlot(): void {
    const { client, http, reservation } = this;
    // The client may read the response much later. Until then, the bodies that these refer to are no longer charged.
    this.#keptBody = undefined;
    this.call = undefined;
    if (http.closed) return;
    reservation.release();
    const left = reservation.leaveSlotFor(() => http.connection.socket.writableLength);
    // If the connection stayed open, preflights would have to wait for this slot for as long as the client likes.
    if (!left && !reservation.holdsOwnSlot) return this.abort('limit');
    client.letGiveWay(true);
  }

  /** Whether to close the connection rather than read the rest of the request. */
  get #restUnwanted(): boolean {
    const { http, exchange } = this;
    if (http.bodyComplete) return false;
    const length = exchange.head?.framing.length;
    return length === undefined || length > maxDiscardedBody || exchange.head?.expectsContinue === true;
  }
}
