import { beginsLikeEnvelope, isEnvelope } from '../../envelope/envelope.ts';
import { isWhiteSpace } from '../../envelope/json/json.ts';
import { Refusal } from '../../errors.ts';
import type { BodySink, RequestFault } from '../../http1/parse/request-reader.ts';
import { continueWith } from '../../promises.ts';
import type { BodyWriter, StreamedBody, UpstreamRequest } from '../../upstream/call.ts';
import type { Admitted } from '../admit/exchange.ts';
import type { Responder } from '../respond/responder.ts';
import type { Opening, Outgoing } from './open.ts';
import { collect, isEncoded, type LongBodies } from './read.ts';

const unexpected =
  'the body looks like an envelope, but encryption is off for this account in test: it was forwarded unchanged';

/**
 * Prepares a request that is forwarded unchanged. Its body may be of any size, because it is streamed. If the account encrypts, the sidecar
 * first checks whether a JSON body is an envelope, because the upstream could not read an envelope. If the account does not encrypt,
 * envelopes are forwarded and counted.
 */
export function inspect(responder: Responder, exchange: Admitted, longBodies: LongBodies): Opening {
  const { head, encryption, enveloped } = exchange;
  const { http, reservation, snapshot } = responder;
  const pass = (body: UpstreamRequest['body'], passed = exchange): Outgoing => ({
    exchange: passed,
    body,
    bodyFields: head.plainFields,
  });
  if (head.framing.type === 'none') return pass(undefined);

  const { requestBody } = snapshot.limits;
  const isOpaque = encryption === undefined || isEncoded(head) || (head.framing.length ?? 0) > requestBody;
  const watch = (first: Buffer): void => {
    responder.unexpectedEnvelope =
      enveloped && encryption === undefined && !isEncoded(head) && beginsLikeEnvelope(first);
    if (responder.unexpectedEnvelope && exchange.environment.name === 'test') responder.hint = unexpected;
  };
  if (isOpaque && !responder.hasWholeBody) {
    // Take the slot first, so that the client is not asked for a body if there is no slot.
    if (!reservation.takeSlot()) return new Refusal('overloaded');
    if (head.expectsContinue) http.sendInformation(100, []);
    return pass(new PassingBody(responder, undefined, watch));
  }
  let blank = 0;
  const collected = collect(responder, requestBody, true, (bytes) => {
    responder.setDeadline('request_timeout');
    // Each byte is examined only once, however the body is split.
    while (blank < bytes.length && isWhiteSpace(bytes[blank] ?? 0)) blank += 1;
    return blank === bytes.length || bytes[blank] === 0x7b;
  });
  return continueWith(collected, (read) => {
    if (read instanceof Refusal) return read;
    const { bytes, whole } = read;
    // If the last piece of the body has shown that the body is not a JSON object, `whole` is false although the whole body has arrived.
    if (!whole && !http.bodyComplete) return pass(new PassingBody(responder, bytes));
    watch(bytes);
    if (isOpaque || bytes.length > requestBody) return pass(bytes);
    return continueWith(longBodies.run(responder.reservation, bytes, isEnvelope), (isOne) => {
      if (!isOne) return pass(bytes);
      if (!snapshot.report.has('encryption_not_supported')) return new Refusal('encryption_not_supported');
      return pass(bytes, { ...exchange, reported: [...exchange.reported, 'encryption_not_supported'] });
    });
  });
}

/**
 * The body of a request, streamed to the upstream: first the bytes that have already been read, then the rest as it arrives. The deadline
 * applies to the client or to the upstream, whichever the sidecar is waiting for.
 */
class PassingBody implements StreamedBody, BodySink {
  readonly #responder: Responder;
  #collected: Buffer | undefined;
  #onFirst: ((piece: Buffer) => void) | undefined;
  #writer: BodyWriter | undefined;

  /**
   * @param collected the bytes that have already been read; the request holds them until they are sent
   * @param onFirst   called with the first piece that arrives
   */
  constructor(responder: Responder, collected?: Buffer, onFirst?: (piece: Buffer) => void) {
    this.#responder = responder;
    this.#collected = collected;
    this.#onFirst = onFirst;
  }

  start(writer: BodyWriter): void {
    this.#writer = writer;
    const collected = this.#collected;
    // The bytes are charged only until they have been sent, but the upload may go on for much longer.
    this.#collected = undefined;
    const hasRoom = collected === undefined || writer.write(collected);
    this.#responder.http.readBody(this);
    if (hasRoom) this.resume();
    else this.#waitForUpstream();
  }

  resume(): void {
    this.#waitForClient();
    // The collected bytes have been sent.
    this.#responder.reservation.release();
    this.#responder.http.resume();
  }

  stop(): void {
    this.#writer = undefined;
  }

  onData(piece: Buffer): void {
    this.#onFirst?.(piece);
    this.#onFirst = undefined;
    this.#waitForClient();
    // The piece is a view of the read buffer, and the socket may write it later, so it must be copied.
    const { pieces } = this.#responder.http.connection.owner;
    const copy = pieces.copy(piece);
    if (this.#writer?.write(copy, () => pieces.release(copy)) === false) this.#waitForUpstream();
  }

  onEnd(): void {
    this.#responder.setDeadline('upstream_timeout');
    this.#writer?.end();
  }

  onFault(fault: RequestFault): void {
    this.#responder.bodyFails(fault);
  }

  #waitForUpstream(): void {
    this.#responder.http.pause();
    this.#responder.setDeadline('upstream_timeout');
  }

  #waitForClient(): void {
    if (!this.#responder.settled) this.#responder.setDeadline('request_timeout');
  }
}
