import type { IncomingMessage } from 'node:http';
import type { BodySink, StreamedBody } from '../upstream/call.ts';
import { continueWith } from '../until.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import type { RequestHead } from './request-head.ts';

/** Whether the body is compressed, or otherwise not what it says by itself. */
export function isEncoded(head: RequestHead): boolean {
  return head.contentEncoding !== undefined && head.contentEncoding.toLowerCase() !== 'identity';
}

/**
 * Whether a stated body did not come although nothing more does. With an Upgrade, even one that is ignored, Node's parser
 * takes a `Transfer-Encoding` that it does not know, such as `chunked` and a tab, for no body instead of refusing it.
 */
export function isUnframed(req: IncomingMessage, head: RequestHead): boolean {
  return head.body.kind === 'chunked' && head.upgrade !== undefined && req.complete && req.readableLength === 0;
}

/**
 * Reads a body of up to `limits.requestBody` and `most` bytes into memory, within the budget of all requests and within
 * `timeouts.request`. Empty where there is none.
 *
 * @returns the body or why it is refused; never settles where the client leaves or the time is over, because then the
 *   request is over, too
 */
export function readBody(
  reply: Reply,
  head: RequestHead,
  most = Infinity,
): Buffer | Refusal | Promise<Buffer | Refusal> {
  if (head.body.kind === 'none') return Buffer.alloc(0);
  const limit = Math.min(most, reply.request.rules.limits.requestBody);
  if ((head.body.contentLength ?? 0) > limit) return new Refusal('body_too_large');
  reply.wait('request_timeout');
  if (head.expectsContinue) reply.raw.writeContinue();
  return continueWith(collect(reply, limit), (read) => {
    if (read instanceof Refusal) return read;
    return read.whole ? concat(read.chunks) : new Refusal('body_too_large');
  });
}

/** What a chunk takes in memory, however few bytes it has: a body that comes byte by byte is a thousand times its size. */
const leastHeld = 512;

/** What was read of a body: all of it, or its beginning, a little more than the limit, with the rest to come. */
export interface Collected {
  readonly chunks: readonly Buffer[];
  readonly whole: boolean;
}

/**
 * Collects a body until it ends, exceeds `limit` bytes, or `goOn` finds at one of its chunks that it is of no interest.
 * The request stands paused afterwards where the body is not whole.
 */
export function collect(
  reply: Reply,
  limit: number,
  goOn: (chunk: Buffer, index: number) => boolean = () => true,
): Promise<Collected | Refusal> {
  const { raw, reservation, stats } = reply.request;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const stop = (result: Collected | Refusal): void => {
      raw.off('data', onData).off('end', onEnd);
      if (result instanceof Refusal || !result.whole) raw.pause();
      stats.resume();
      if (!reply.begun) resolve(result);
    };
    const onData = (chunk: Buffer): void => {
      stats.bytesIn += chunk.length;
      if (!reservation.hold(Math.max(chunk.length, leastHeld))) {
        stop(new Refusal('overloaded'));
        return;
      }
      chunks.push(chunk);
      length += chunk.length;
      if (length > limit || !goOn(chunk, chunks.length - 1)) stop({ chunks, whole: false });
    };
    const onEnd = (): void => stop({ chunks, whole: true });
    raw.on('data', onData).on('end', onEnd);
  });
}

/** One buffer of several; of one, itself. */
export function concat(chunks: readonly Buffer[]): Buffer {
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks);
}

/**
 * A request's body on its way to the upstream: first what was looked at already, then the rest as it comes, straight from one
 * connection to the other. At most one of the two is waited for at a time.
 */
export class PassingBody implements StreamedBody {
  readonly #reply: Reply;
  readonly #lookedAt: readonly Buffer[];
  #onFirst: ((chunk: Buffer, reply: Reply) => void) | undefined;
  #sink: BodySink | undefined;
  readonly #onData = (chunk: Buffer): void => {
    this.#reply.request.stats.bytesIn += chunk.length;
    if (this.#onFirst !== undefined) {
      this.#onFirst(chunk, this.#reply);
      this.#onFirst = undefined;
    }
    this.#waitForClient();
    if (this.#sink?.write(chunk) === false) this.#waitForUpstream();
  };
  readonly #onEnd = (): void => {
    this.#reply.wait('upstream_timeout');
    this.#sink?.end();
  };

  /**
   * @param lookedAt what was read of it; held by the request until it is on its way
   * @param onFirst  called with the first chunk that comes
   */
  constructor(reply: Reply, lookedAt: readonly Buffer[], onFirst?: (chunk: Buffer, reply: Reply) => void) {
    this.#reply = reply;
    this.#onFirst = onFirst;
    this.#lookedAt = lookedAt;
    reply.request.raw.pause();
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    this.#reply.request.raw.on('data', this.#onData).on('end', this.#onEnd);
    let hasRoom = true;
    for (const chunk of this.#lookedAt) hasRoom = sink.write(chunk);
    if (hasRoom) this.resume();
    else this.#waitForUpstream();
  }

  resume(): void {
    this.#waitForClient();
    // What was looked at is on its way, and no longer held here.
    this.#reply.request.reservation.release();
    this.#reply.request.raw.resume();
  }

  stop(): void {
    this.#reply.request.raw.off('data', this.#onData).off('end', this.#onEnd);
    this.#sink = undefined;
  }

  /** The upstream is what is slow now. */
  #waitForUpstream(): void {
    this.#reply.request.raw.pause();
    this.#reply.wait('upstream_timeout');
  }

  #waitForClient(): void {
    if (!this.#reply.begun) this.#reply.wait('request_timeout');
  }
}
