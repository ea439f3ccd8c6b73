import type { UpstreamFailure } from '../upstream/call.ts';
import type { Reply } from './reply.ts';

/** Relays the upstream's response to the client: the part that plain and sealed responses have in common. */
export abstract class ResponseRelay {
  protected readonly reply: Reply;
  protected ended = false;
  #stalled = false;

  constructor(reply: Reply) {
    this.reply = reply;
  }

  onFailure(failure: UpstreamFailure): void {
    this.reply.upstreamFails(failure);
  }

  onError(error: unknown): void {
    this.reply.fail(error);
  }

  /** Gives the upstream another `timeouts.upstream`. */
  protected waitForUpstream(now: number): void {
    if (!this.#stalled) this.reply.setDeadline('upstream_timeout', now);
  }

  /** Writes a part of the body; while the client reads more slowly than the upstream sends, the source is paused. */
  protected write(chunk: Buffer | string, source: { pause(): void; resume(): void } | undefined): void {
    const { raw, request } = this.reply;
    request.stats.bytesOut += chunk.length;
    if (raw.write(chunk, 'latin1') || this.#stalled) return;
    this.#stalled = true;
    source?.pause();
    this.reply.setDeadline('client_stalled');
    raw.once('drain', () => {
      this.#stalled = false;
      if (!this.ended) this.waitForUpstream(performance.now());
      source?.resume();
    });
  }

  protected end(last: Buffer | string | undefined, now: number): void {
    this.ended = true;
    this.reply.end(last, now);
  }
}
