import type { Transform } from 'node:stream';
import { createGunzip, createInflate } from 'node:zlib';
import type { EnvelopeSealer, SealStream } from '../../envelope/codec.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { ResponseHandler, UpstreamFailure } from '../../upstream/call.ts';
import type { EnvironmentName } from '../../accounts/api-key.ts';
import { Refusal } from '../../errors.ts';
import { readResponseHead, Relay, type ResponseHead } from './relay.ts';
import type { Responder } from './responder.ts';
import type { MonotonicMs } from '../../times.ts';

/** Responses up to this size are sealed in one piece. */
const maxSealedAtOnce = 65_536;

/**
 * Decoders for upstreams that compress a response although they were asked not to. These codings have a window of 32 KiB. br and zstd are
 * not decoded, because a response in one of them may ask for a window of 16 MiB or more.
 */
const decoders = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
]);

/** Bytes charged for a decoder: its window, its state, and the bytes that wait to enter or leave it. */
const decoderMemory = 262_144;

/**
 * Seals a response for the client. A short response of known length is sealed in one piece; any other response is streamed through the
 * cipher. Once a byte has been sent, only closing the connection can show the client that the response has failed.
 */
export class SealingRelay extends Relay implements ResponseHandler {
  readonly #sealer: EnvelopeSealer;
  readonly #environment: EnvironmentName;
  readonly #metrics: Metrics;
  #head: ResponseHead | undefined;
  /** The content coding of a body whose first byte has not arrived yet. */
  #coding: string | undefined;
  #decoder: Transform | undefined;
  #decoderFull = false;
  /** Whether the coded data has ended. Later bytes from the upstream are ignored. */
  #decoded = false;
  #upstreamEnded = false;
  /** Whether the response is short enough to be collected and sealed in one piece. */
  #collects = false;
  /** A buffer for the whole body, filled up to `#collectedLength`, or the body itself if it came in one piece. */
  #collected: Buffer | undefined;
  #collectedLength = 0;
  #stream: SealStream | undefined;
  #sealTime = 0;

  constructor(responder: Responder, environment: EnvironmentName, sealer: EnvelopeSealer, metrics: Metrics) {
    super(responder);
    this.#sealer = sealer;
    this.#environment = environment;
    this.#metrics = metrics;
  }

  // Informational responses are dropped, because they describe a body that the client does not get unchanged.
  onInformation(): void {}

  onHead(status: number, raw: readonly string[]): void {
    const { reservation } = this.responder;
    const head = readResponseHead(status, raw);
    this.#head = head;
    // The response may be collected for as long as the core likes.
    this.responder.lasts = true;
    this.waitForUpstream(performance.now());
    if (!this.responder.http.mayHaveBody(status) || head.contentLength === 0) return;
    const coding = head.contentEncoding?.toLowerCase() ?? 'identity';
    if (coding !== 'identity') {
      this.#coding = coding;
      return;
    }
    const { contentLength } = head;
    this.#collects = contentLength !== undefined && contentLength <= maxSealedAtOnce && reservation.hold(contentLength);
  }

  onData(chunk: Buffer): void {
    // A piece that is the whole body needs no new deadline, because the end of the response follows it.
    if (chunk.length !== this.#head?.contentLength) this.waitForUpstream(performance.now());
    if (this.#coding !== undefined && !this.#startDecoder(this.#coding)) {
      this.#fail();
    } else if (this.#decoder === undefined) {
      this.#onPlain(chunk);
    } else if (!this.#decoded && !this.#decoder.write(Buffer.from(chunk)) && !this.#decoderFull) {
      this.#decoderFull = true;
      this.responder.call?.pause();
      this.#decoder.once('drain', () => {
        this.#decoderFull = false;
        this.responder.call?.resume();
      });
    }
  }

  onEnd(): void {
    const now = performance.now();
    this.responder.timing.endUpstream(now);
    this.#upstreamEnded = true;
    if (this.#decoder === undefined || this.#decoded) this.#onPlainEnd(now);
    else this.#decoder.end();
  }

  override onFailure(failure: UpstreamFailure): void {
    // Stop the decoder first. Otherwise, bytes that it still emits would follow the refusal.
    this.#decoder?.destroy();
    super.onFailure(failure);
  }

  /** @returns false if the coding is unknown or the memory is not available */
  #startDecoder(coding: string): boolean {
    this.#coding = undefined;
    const create = decoders.get(coding);
    if (create === undefined || !this.responder.reservation.hold(decoderMemory)) return false;
    this.#decoder = create()
      .on('data', (chunk: Buffer) => this.#unlessRefused(() => this.#onPlain(chunk)))
      .on('end', () => this.#unlessRefused(() => this.#onDecoded()))
      .on('error', () => this.#unlessRefused(() => this.#fail()));
    this.responder.whenClosed = () => this.#decoder?.destroy();
    return true;
  }

  /** Called when the coded data has ended. The response may not have ended yet, and may still fail. */
  #onDecoded(): void {
    this.#decoded = true;
    // If the upstream sends more than the coded data, the decoder would otherwise wait for the end, and keep its memory.
    this.#decoder?.destroy();
    if (this.#upstreamEnded) this.#onPlainEnd(performance.now());
    else this.responder.call?.resume();
  }

  /**
   * Handles an event of the decoder, unless the request has been refused or is over, because the decoder may still emit bytes then. Catches
   * errors, because an error that an event handler throws would end the process.
   */
  #unlessRefused(work: () => void): void {
    if (this.responder.refusal !== undefined || this.responder.http.closed) return;
    try {
      work();
    } catch (error) {
      this.onError(error);
    }
  }

  #onPlain(chunk: Buffer): void {
    if (this.#collects) {
      this.#collect(chunk, this.#head?.contentLength ?? 0);
      return;
    }
    const source = this.#decoder ?? this.responder.call;
    const before = performance.now();
    const sealed = this.#startedStream(before).update(chunk);
    this.#sealTime += performance.now() - before;
    if (sealed !== '') this.write(sealed, source);
  }

  /** Copies the pieces into one buffer, for which memory has been reserved. */
  #collect(chunk: Buffer, length: number): void {
    // A piece that is the whole body is not copied, because the response ends before the next read overwrites it.
    if (chunk.length === length) this.#collected = chunk;
    else {
      this.#collected ??= Buffer.allocUnsafe(length);
      this.#collectedLength += chunk.copy(this.#collected, this.#collectedLength);
    }
  }

  #onPlainEnd(now: MonotonicMs): void {
    if (this.#collected === undefined && this.#stream === undefined) {
      // An empty body is not sealed.
      this.#writeHead(undefined, now);
      this.responder.end(undefined, now);
      return;
    }
    const sealed = this.#collected === undefined ? this.#stream?.end() : this.#sealer.seal(this.#collected);
    const sealedAt = performance.now();
    this.#sealTime += sealedAt - now;
    if (this.#stream === undefined) this.#writeHead(sealed?.length, sealedAt);
    this.responder.end(sealed, sealedAt);
    this.#observe('ok');
  }

  /** Sends the head when the first byte of the body has arrived, because only that byte shows that there is a body to seal. */
  #startedStream(now: MonotonicMs): SealStream {
    if (this.#stream !== undefined) return this.#stream;
    this.#stream = this.#sealer.stream();
    const length = this.#decoder === undefined ? this.#head?.contentLength : undefined;
    this.#writeHead(length === undefined ? 'unknown' : this.#sealer.sealedLength(length), now);
    return this.#stream;
  }

  /** @param length the length of the sealed body; undefined if there is no body */
  #writeHead(length: number | 'unknown' | undefined, now: MonotonicMs): void {
    const { responder } = this;
    const { status = 200, fields = [], contentType } = this.#head ?? {};
    fields.push('Cache-Control', 'no-store');
    if (length === undefined) {
      if (contentType !== undefined) fields.push('Content-Type', contentType);
      if (responder.http.mayHaveBody(status)) fields.push('Content-Length', '0');
    } else {
      fields.push('Content-Type', 'application/json', 'Envelope', 'sealed');
      if (contentType !== undefined && !isJsonType(contentType)) fields.push('Envelope-Content-Type', contentType);
      if (length !== 'unknown') fields.push('Content-Length', String(length));
    }
    responder.sendHead(status, fields, now);
  }

  /** Refuses to send a response that cannot be sealed, or breaks it off if it has begun. */
  #fail(): void {
    if (this.responder.http.closed) return;
    this.#observe('failed');
    this.responder.refuseOrAbort(new Refusal('sealing_failed'), 'upstream');
  }

  #observe(outcome: 'ok' | 'failed'): void {
    this.responder.timing.envelope += this.#sealTime;
    this.#metrics.envelope(this.#environment, 'seal', outcome, this.#sealTime / 1_000);
  }
}

/** Whether a type is `application/json`, with any parameters. Clients expect this type in an envelope. */
function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(?:;|$)/i.test(contentType);
}
