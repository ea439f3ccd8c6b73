import { mayHaveBody } from '../upstream/response-parser.ts';
import { readResponseHead } from './response-headers.ts';
import { ResponseRelay } from './response-relay.ts';

/** A response that goes to the client as it is, as fast as the client takes it. */
export class PlainResponse extends ResponseRelay {
  /** Bytes that a body of stated length still lacks. */
  #awaited: number | undefined;

  override onInformation(status: number, headers: readonly string[]): void {
    // RFC 9110 §15.2: passed on, but to HTTP/1.0, which does not know them.
    if (this.reply.request.raw.httpVersionMinor === 0) return;
    const early = readResponseHead(status, headers);
    this.reply.raw.writeInformation(status, early.headers);
  }

  override onHead(status: number, raw: readonly string[]): void {
    const { raw: res, request } = this.reply;
    this.waitForUpstream();
    const head = readResponseHead(status, raw);
    head.headers.push(...head.bodyHeaders);
    this.reply.writeHead(status, head.headers);
    this.#awaited = mayHaveBody(request.head?.method ?? '', status) ? head.contentLength : 0;
    // The head travels with the first bytes where they are here already, and at once where they are not: whoever
    // listens to a stream of events waits for it.
    if (this.#awaited !== 0) {
      process.nextTick(() => {
        if (!res.writableEnded) res.flushHeaders();
      });
    }
  }

  override onData(chunk: Buffer): void {
    if (this.#awaited === chunk.length) {
      // The whole rest, in one write with the head where it is the first piece, too.
      this.#awaited = undefined;
      this.end(chunk);
      return;
    }
    if (this.#awaited !== undefined) this.#awaited -= chunk.length;
    this.waitForUpstream();
    this.write(chunk, this.reply.call);
  }

  override onEnd(): void {
    this.reply.request.stats.upstreamEnds();
    if (!this.ended) this.end();
  }
}
