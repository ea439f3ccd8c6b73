import type { BodySink as ClientSink, RequestFault } from '../../http1/request-reader.ts';
import type { BodySink, StreamedBody } from '../../upstream/call.ts';
import type { Responder } from '../respond/responder.ts';

/**
 * A request's body that is streamed to the upstream: first the bytes that were read already, then the rest as it
 * arrives. The deadline applies to the client or to the upstream, whichever is awaited.
 */
export class PassingBody implements StreamedBody, ClientSink {
  readonly #responder: Responder;
  readonly #collected: Buffer | undefined;
  readonly #onFirst: ((piece: Buffer) => void) | undefined;
  #isFirst = true;
  #sink: BodySink | undefined;

  /**
   * @param collected the bytes that were read, held by the request until they are sent
   * @param onFirst   called with the first piece that arrives
   */
  constructor(responder: Responder, collected?: Buffer, onFirst?: (piece: Buffer) => void) {
    this.#responder = responder;
    this.#collected = collected;
    this.#onFirst = onFirst;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    const hasRoom = this.#collected === undefined || sink.write(this.#collected);
    this.#responder.http.readBody(this);
    if (hasRoom) this.resume();
    else this.#waitForUpstream();
  }

  resume(): void {
    this.#waitForClient();
    // The collected bytes are sent.
    this.#responder.reservation.release();
    this.#responder.http.resume();
  }

  stop(): void {
    this.#sink = undefined;
  }

  onData(piece: Buffer): void {
    if (this.#isFirst) this.#onFirst?.(piece);
    this.#isFirst = false;
    this.#waitForClient();
    // The piece is a view of what was read; the socket may write it later.
    if (this.#sink?.write(Buffer.from(piece)) === false) this.#waitForUpstream();
  }

  onEnd(): void {
    this.#responder.setDeadline('upstream_timeout');
    this.#sink?.end();
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
