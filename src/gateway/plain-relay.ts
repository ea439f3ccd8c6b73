import type { ResponseHandler } from '../upstream/call.ts';
import { readResponseHead } from './response-headers.ts';
import { ResponseRelay } from './response-relay.ts';

/** Relays a response to the client unchanged, as fast as the client reads it. */
export class PlainRelay extends ResponseRelay implements ResponseHandler {
  /** Bytes of a body of stated length that are still to come. */
  #remaining: number | undefined;

  onInformation(status: number, headers: readonly string[]): void {
    // RFC 9110 §15.2: not for HTTP/1.0, which does not know them.
    if (this.reply.request.raw.httpVersionMinor === 0) return;
    this.reply.raw.writeInformation(status, readResponseHead(status, headers).headers);
  }

  onHead(status: number, raw: readonly string[]): void {
    const { raw: res } = this.reply;
    const now = performance.now();
    this.waitForUpstream(now);
    const head = readResponseHead(status, raw);
    head.headers.push(...head.bodyHeaders);
    this.reply.writeHead(status, head.headers, now);
    this.#remaining = this.reply.mayHaveBody(status) ? head.contentLength : 0;
    // The head is sent with the first bytes if they have arrived, otherwise at once, because a client of an event
    // stream waits for it.
    if (this.#remaining !== 0) {
      process.nextTick(() => {
        if (!res.writableEnded) res.flushHeaders();
      });
    }
  }

  onData(chunk: Buffer): void {
    if (this.#remaining === chunk.length) {
      // The last piece; if it is the first one too, it is written together with the head.
      this.#remaining = undefined;
      this.end(chunk, performance.now());
      return;
    }
    if (this.#remaining !== undefined) this.#remaining -= chunk.length;
    this.waitForUpstream(performance.now());
    this.write(chunk, this.reply.call);
  }

  onEnd(): void {
    const now = performance.now();
    this.reply.request.stats.upstreamEnds(now);
    if (!this.ended) this.end(undefined, now);
  }
}
