import { joined, nominatedBy, roleInResponse, without } from '../admit/fields.ts';
import type { ResponseHandler, UpstreamFailure } from '../../upstream/call.ts';
import type { Responder } from './responder.ts';
import type { MonotonicMs } from '../../times.ts';

/** Relays the upstream's response to the client. This class contains what plain and sealed responses have in common. */
export abstract class Relay {
  protected readonly responder: Responder;
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

  /** Restarts `timeouts.upstream` for the upstream, unless the sidecar is waiting for the client to read. */
  protected waitForUpstream(now: MonotonicMs): void {
    if (!this.#stalled) this.responder.setDeadline('upstream_timeout', now);
  }

  /** Writes a part of the body. Pauses the source while the client reads more slowly than the upstream sends. */
  protected write(piece: Buffer | string, source: { pause(): void; resume(): void } | undefined): void {
    const { responder } = this;
    if (responder.write(piece) || this.#stalled) return;
    this.#stalled = true;
    source?.pause();
    responder.setDeadline('client_stalled');
    responder.whenDrained = () => {
      this.#stalled = false;
      this.waitForUpstream(performance.now());
      source?.resume();
    };
  }
}

/** Relays a response to the client unchanged, as fast as the client reads it. */
export class PlainRelay extends Relay implements ResponseHandler {
  /** How many bytes of the body are still to come; undefined if the length of the body is not known. */
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
    this.#remaining = responder.http.mayHaveBody(status) ? head.contentLength : 0;
  }

  onData(piece: Buffer): void {
    if (this.#remaining === piece.length) {
      // This is the last piece. If it is also the first one, it is written together with the head.
      this.#remaining = undefined;
      const now = performance.now();
      this.responder.timing.endUpstream(now);
      this.responder.end(piece, now);
      return;
    }
    if (this.#remaining !== undefined) this.#remaining -= piece.length;
    this.waitForUpstream(performance.now());
    this.write(piece, this.responder.call);
  }

  onEnd(): void {
    if (this.responder.http.ended) return;
    const now = performance.now();
    this.responder.timing.endUpstream(now);
    this.responder.end(undefined, now);
  }
}

/** The head of an upstream's response. */
export interface ResponseHead {
  readonly status: number;
  /** Flat list of the end-to-end fields, except those that describe the body. */
  readonly fields: string[];
  /** Flat list of the fields that describe the body, including `Content-Length`. */
  readonly bodyFields: string[];
  readonly contentLength: number | undefined;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
}

/** Sorts the fields of a response from the upstream. @param raw all fields, as a flat list */
export function readResponseHead(status: number, raw: readonly string[]): ResponseHead {
  let fields: string[] = [];
  let bodyFields: string[] = [];
  let contentLength: number | undefined;
  let contentType: string | undefined;
  let contentEncoding: string | undefined;
  let connection: string | undefined;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    const { lower, role } = roleInResponse(name);
    if (role === 'dropped') {
      if (lower === 'connection') connection = joined(connection, value);
      continue;
    }
    if (role === undefined) {
      fields.push(name, value);
      continue;
    }
    // RFC 9110 §8.6: a 204 has no `Content-Length`, not even 0. If it had one, a client might wait for a body.
    if (status === 204 && lower === 'content-length') continue;
    bodyFields.push(name, value);
    if (lower === 'content-length') contentLength = Number(value);
    else if (lower === 'content-type') contentType ??= value;
    else if (lower === 'content-encoding') contentEncoding = joined(contentEncoding, value);
  }
  if (connection !== undefined) {
    const names = nominatedBy(connection);
    fields = without(names, fields);
    bodyFields = without(names, bodyFields);
  }
  return { status, fields, bodyFields, contentLength, contentType, contentEncoding };
}
