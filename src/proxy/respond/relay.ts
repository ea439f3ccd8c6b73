import type { ResponseHandler, UpstreamFailure } from '../../upstream/call.ts';
import { readResponseHead } from './response-head.ts';
import type { Responder } from './responder.ts';

/** Relays the upstream's response to the client: the part that plain and sealed responses have in common. */
export abstract class Relay {
  protected readonly responder: Responder;
  protected ended = false;
  #stalled = false;

  constructor(responder: Responder) {
    this.responder = responder;
  }

  onFailure(failure: UpstreamFailure): void {
    this.responder.upstreamFails(failure);
  }

  onError(error: unknown): void {
    this.responder.fail(error);
  }

  /** Gives the upstream another `timeouts.upstream`. */
  protected waitForUpstream(now: number): void {
    if (!this.#stalled) this.responder.setDeadline('upstream_timeout', now);
  }

  /** Writes a part of the body; while the client reads more slowly than the upstream sends, the source is paused. */
  protected write(piece: Buffer | string, source: { pause(): void; resume(): void } | undefined): void {
    const { responder } = this;
    if (responder.write(piece) || this.#stalled) return;
    this.#stalled = true;
    source?.pause();
    responder.setDeadline('client_stalled');
    responder.whenDrained = () => {
      this.#stalled = false;
      if (!this.ended) this.waitForUpstream(performance.now());
      source?.resume();
    };
  }

  protected end(last: Buffer | string | undefined, now: number): void {
    this.ended = true;
    this.responder.end(last, now);
  }
}

/** Relays a response to the client unchanged, as fast as the client reads it. */
export class PlainRelay extends Relay implements ResponseHandler {
  /** Bytes of a body of stated length that are still to come. */
  #remaining: number | undefined;

  onInformation(status: number, fields: readonly string[]): void {
    if (!this.responder.settled) this.responder.http.sendInformation(status, readResponseHead(status, fields).fields);
  }

  onHead(status: number, fields: readonly string[]): void {
    const { responder } = this;
    const now = performance.now();
    this.waitForUpstream(now);
    const head = readResponseHead(status, fields);
    head.fields.push(...head.bodyFields);
    responder.sendHead(status, head.fields, now);
    this.#remaining = responder.mayHaveBody(status) ? head.contentLength : 0;
  }

  onData(piece: Buffer): void {
    if (this.#remaining === piece.length) {
      // The last piece; if it is the first one too, it is written together with the head.
      this.#remaining = undefined;
      const now = performance.now();
      this.responder.timing.endUpstream(now);
      this.end(piece, now);
      return;
    }
    if (this.#remaining !== undefined) this.#remaining -= piece.length;
    this.waitForUpstream(performance.now());
    this.write(piece, this.responder.call);
  }

  onEnd(): void {
    const now = performance.now();
    this.responder.timing.endUpstream(now);
    if (!this.ended) this.end(undefined, now);
  }
}
