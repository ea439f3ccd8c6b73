import type { BodySink, StreamedBody } from '../upstream/call.ts';
import type { Admitted } from './admitted.ts';
import { Refusal } from './refusal.ts';
import type { Reply } from './reply.ts';
import type { RequestHead } from './request-head.ts';

/** Whether the body has a content coding. */
export function isEncoded(head: RequestHead): boolean {
  return head.contentEncoding !== undefined && head.contentEncoding.toLowerCase() !== 'identity';
}

/**
 * Whether a chunked body is missing although the request is complete. With an Upgrade, even an ignored one, Node's parser takes
 * a `Transfer-Encoding` that it does not know, such as `chunked` with a tab, for no body instead of refusing it.
 */
export function isUnframed({ reply, head }: Admitted): boolean {
  const { complete, readableLength } = reply.request.raw;
  return head.body.type === 'chunked' && head.upgrade !== undefined && complete && readableLength === 0;
}

/**
 * Reads a body of up to `limits.requestBody` and `maxLength` bytes into memory, within the budget of all requests and within
 * `timeouts.request`. Empty if there is none.
 *
 * @returns a promise that never settles if the client disconnects or the time is over: then the request is over
 */
export function readBody(
  { reply, head }: Admitted,
  maxLength = Infinity,
): Buffer | Refusal | Promise<Buffer | Refusal> {
  if (head.body.type === 'none') return Buffer.alloc(0);
  const limit = Math.min(maxLength, reply.request.rules.limits.requestBody);
  if ((head.body.contentLength ?? 0) > limit) return new Refusal('body_too_large');
  if (head.expectsContinue) reply.raw.writeContinue();
  // Node's parser reports the last byte before the end.
  const { complete, readableLength } = reply.request.raw;
  if (complete || readableLength === head.body.contentLength) return takeBody(reply, limit);
  reply.setDeadline('request_timeout');
  return collect(reply, limit).then((read) => {
    if (read instanceof Refusal) return read;
    return read.whole ? concat(read.chunks) : new Refusal('body_too_large');
  });
}

/** Reads a body that has arrived in whole, as most do, without waiting for a stream's events. */
function takeBody({ request: { raw, reservation, stats } }: Reply, limit: number): Buffer | Refusal {
  const chunks: Buffer[] = [];
  let length = 0;
  let charge = 0;
  // Since Node 26, each call returns one of the pieces that have arrived.
  for (let chunk = raw.read() as Buffer | null; chunk !== null; chunk = raw.read() as Buffer | null) {
    chunks.push(chunk);
    length += chunk.length;
    charge += Math.max(chunk.length, minChunkSize);
  }
  // Node waits for the stream's end before it reads the next request.
  raw.resume();
  stats.bytesIn += length;
  if (charge > 0 && !reservation.hold(charge)) return new Refusal('overloaded');
  return length > limit ? new Refusal('body_too_large') : concat(chunks);
}

/** The least bytes charged for a chunk, because a body that arrives byte by byte takes a thousand times its size in memory. */
const minChunkSize = 512;

/** A whole body, or its first chunks with the rest to come. */
interface Collected {
  readonly chunks: readonly Buffer[];
  readonly whole: boolean;
}

/**
 * Collects a body until it ends, exceeds `limit` bytes, or `goOn` returns false for a chunk. Unless the body is whole, the
 * request is paused afterwards.
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
      raw.off('data', onData).off('end', onEnd).pause();
      settle(result);
    };
    const settle = (result: Collected | Refusal): void => {
      stats.resume();
      if (!reply.begun) resolve(result);
    };
    const onData = (chunk: Buffer): void => {
      stats.bytesIn += chunk.length;
      if (!reservation.hold(Math.max(chunk.length, minChunkSize))) {
        stop(new Refusal('overloaded'));
        return;
      }
      chunks.push(chunk);
      length += chunk.length;
      if (length > limit || !goOn(chunk, chunks.length - 1)) stop({ chunks, whole: false });
    };
    const onEnd = (): void => settle({ chunks, whole: true });
    raw.on('data', onData).on('end', onEnd);
  });
}

/** Concatenates buffers; a single one is not copied. */
export function concat(chunks: readonly Buffer[]): Buffer {
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks);
}

/**
 * A request's body that is streamed to the upstream: first the chunks that were read already, then the rest as it
 * arrives. The deadline applies to the client or to the upstream, whichever is awaited.
 */
export class PassingBody implements StreamedBody {
  readonly #reply: Reply;
  readonly #collected: readonly Buffer[];
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
    this.#reply.setDeadline('upstream_timeout');
    this.#sink?.end();
  };

  /**
   * @param collected the chunks that were read, held by the request until they are sent
   * @param onFirst   called with the first chunk that arrives
   */
  constructor(reply: Reply, collected: readonly Buffer[], onFirst?: (chunk: Buffer, reply: Reply) => void) {
    this.#reply = reply;
    this.#onFirst = onFirst;
    this.#collected = collected;
    reply.request.raw.pause();
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    this.#reply.request.raw.on('data', this.#onData).on('end', this.#onEnd);
    let hasRoom = true;
    for (const chunk of this.#collected) hasRoom = sink.write(chunk);
    if (hasRoom) this.resume();
    else this.#waitForUpstream();
  }

  resume(): void {
    this.#waitForClient();
    // The collected chunks are sent.
    this.#reply.request.reservation.release();
    this.#reply.request.raw.resume();
  }

  stop(): void {
    this.#reply.request.raw.off('data', this.#onData).off('end', this.#onEnd);
    this.#sink = undefined;
  }

  #waitForUpstream(): void {
    this.#reply.request.raw.pause();
    this.#reply.setDeadline('upstream_timeout');
  }

  #waitForClient(): void {
    if (!this.#reply.begun) this.#reply.setDeadline('request_timeout');
  }
}
