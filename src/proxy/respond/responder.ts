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

/** A refused body of up to this many bytes is read to its end, so that the connection can be reused. */
const maxDiscardedBody = 65_536;

/** The only writer of the response to a request. It also keeps the deadline of what the request waits for. */
export class Responder implements ExchangeHandler, Linked<Responder> {
  /** Its neighbours among the requests in progress. */
  previous: Responder | undefined;
  next: Responder | undefined;

  readonly http: ServerExchange;
  readonly client: ClientConnection;
  /** The configuration at the time the request began. */
  readonly snapshot: GatewaySnapshot;
  readonly reservation: Reservation;
  readonly timing: Timing;
  /** What is known about the request. Only the steps in ../exchange.ts replace it, with one that has more facts. */
  exchange: Exchange;
  /** The request to the upstream, if there is one. */
  call: UpstreamCall | undefined;
  /** The directory in which the request's key is being looked up. */
  asked: KeyDirectory | undefined;
  /** The refusal that was sent. */
  refusal: Refusal | undefined;
  /** Why there is no complete response of the upstream: an error's code, for the log. */
  upstreamError: string | undefined;
  /** An unexpected error; logged at the end. */
  error: unknown;
  /** Whether the request's body begins like an envelope although the account does not encrypt. */
  unexpectedEnvelope = false;
  /** In test, the likely slip in a request that is accepted, for `Envelope-Hint`; ASCII. */
  hint: string | undefined;
  /** Bytes of the response's body. */
  bytesOut = 0;
  /** Whether the connection has become a WebSocket. */
  upgraded = false;
  /** How the exchange ended; undefined while it is in progress. */
  outcome: ExchangeOutcome | undefined;
  /** Called once when the client has read what was written, if `write` returned false. */
  whenDrained: (() => void) | undefined;
  /** Called at the end of the exchange. */
  whenClosed: (() => void) | undefined;
  readonly #onClose: (responder: Responder) => void;
  #keptBody: Buffer | undefined;
  #bodyTaken = false;
  #wait: Wait = 'request_timeout';

  /** @param onClose called once, when the response is complete, the client has left, or the connection was closed */
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

  /** The status that the client got, even if the response was broken off here; undefined if the client left first, or no response began. */
  get status(): number | undefined {
    if (this.upgraded) return 101;
    return this.outcome === 'client_left' ? undefined : this.http.status;
  }

  /** Whether the whole body arrived with the head, and is still there. */
  get hasWholeBody(): boolean {
    return this.#keptBody !== undefined || this.http.wholeBody !== undefined;
  }

  /**
   * Takes a body that has arrived, and reserves its memory.
   *
   * @param outlives whether the body is used after the caller returns to the event loop: otherwise it may be a view of what was read from
   *   the socket, which the next read overwrites
   */
  takeWholeBody(outlives: boolean): Buffer | Refusal {
    const kept = this.#keptBody;
    this.#bodyTaken = true;
    if (kept !== undefined) return kept;
    const { wholeBody = Buffer.alloc(0) } = this.http;
    if (!this.reservation.hold(wholeBody.length)) return new Refusal('overloaded');
    return outlives ? Buffer.from(wholeBody) : wholeBody;
  }

  /** Keeps a body that has arrived, because the request has to wait. */
  keepBody(): void {
    // A request that has been sent must not be refused.
    const isSent = this.call !== undefined;
    const isDone = isSent || this.#bodyTaken || this.settled || this.exchange.refusal !== undefined;
    if (isDone || this.http.wholeBody === undefined) return;
    const body = this.takeWholeBody(true);
    if (body instanceof Refusal) this.refuse(body);
    else this.#keptBody = body;
  }

  /** Sets the deadline of the wait that begins now. @param now on `performance.now()`'s scale, here and below */
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
    // After a complete response, the upstream is done: its last bytes may be in the middle of being read.
    if (outcome !== 'complete') this.call?.abort();
    this.whenClosed?.();
    this.#onClose(this);
  }

  upstreamFails({ code, cause }: UpstreamFailure): void {
    this.timing.endUpstream();
    this.upstreamError = cause;
    // The request was not sent: the client may send it again.
    if (code === 'overloaded') this.call = undefined;
    this.refuseOrAbort(new Refusal(code), 'upstream');
  }

  /** The bytes that should be the request's body are not valid. */
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

  /** Refuses the request, or breaks a response that has begun. */
  refuseOrAbort(refusal: Refusal, reason: ClosingReason): void {
    this.timing.resume();
    if (this.http.status === undefined) this.refuse(refusal);
    else this.abort(reason);
  }

  /** Ends the request, and gives back what it has taken: its connection closes after its response. */
  giveWay(limit: LimitName): void {
    this.http.keepAlive = false;
    const { tier } = this.reservation.claim;
    this.reservation.exceeded = { limit, shortage: tier === 'anonymous' ? tier : 'public' };
    this.client.count('limit');
    this.refuseOrAbort(new Refusal('overloaded'), 'limit');
    this.reservation.end();
  }

  /** Closes the connection so that an incomplete response cannot be taken for a whole one. */
  abort(reason: ClosingReason): void {
    if (this.http.closed) return;
    this.client.endsFor(reason);
    this.http.abort();
  }

  /** Sends a refusal, sealed if the refusal's row and this request ask for that. */
  refuse(refusal: Refusal): void {
    if (this.settled) return;
    const { exchange, http } = this;
    this.refusal = refusal;
    // Nothing else aborts the call after a complete response: what the core still sends, above all a WebSocket's 101, belongs to nobody.
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

  /** Sends a whole response; a string's characters are ASCII. */
  send(status: number, fields: string[], body: string | Buffer, sealing = this.exchange.sealing): void {
    const now = performance.now();
    this.#complete(fields, now, sealing);
    if (this.http.mayHaveBody(status)) this.bytesOut += body.length;
    this.setDeadline('client_stalled', now);
    this.http.send(status, fields, body);
    this.#leaveSlot();
  }

  /**
   * Begins the response. If the request is incomplete, the response closes the connection, because the rest may never arrive.
   *
   * @param fields flat list, to which the fields of each response are added
   */
  sendHead(status: number, fields: string[], now: MonotonicMs): void {
    if (!this.http.bodyComplete) this.http.keepAlive = false;
    this.#complete(fields, now, this.exchange.sealing);
    this.http.sendHead(status, fields);
  }

  /** Adds the fields that each response carries. */
  #complete(fields: string[], now: MonotonicMs, sealing: Sealing | undefined): void {
    fields.push('X-Request-Id', this.exchange.id);
    if (sealing?.inGrace === true) fields.push('Envelope-Credentials', sealing.credentials);
    if (this.hint !== undefined) fields.push('Envelope-Hint', this.hint);
    this.timing.respond(now);
  }

  /** @returns false if the client must read first; then `whenDrained` is called */
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
    if (http.closed) return;
    reservation.release();
    const left = reservation.leaveSlotFor(() => http.connection.socket.writableLength);
    // Preflights would wait for the slot as long as the client likes.
    if (!left && reservation.holdsAnonymousSlot) return this.abort('limit');
    client.letGiveWay(true);
  }

  /** Whether the rest of the request is not worth reading, so that it is better to close the connection. */
  get #restUnwanted(): boolean {
    const { http, exchange } = this;
    if (http.bodyComplete) return false;
    const length = exchange.head?.framing.length;
    return length === undefined || length > maxDiscardedBody || exchange.head?.expectsContinue === true;
  }
}
