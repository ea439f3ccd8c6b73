import type { OpenReason } from '../envelope/codec.ts';
import type { UpstreamFailure } from '../upstream/call.ts';

/** The measurements of one request. Durations in milliseconds, points in time on `performance.now()`'s scale. */
export class RequestStats {
  readonly startedAt = performance.now();
  bytesIn = 0;
  bytesOut = 0;
  /** Whether its body was an envelope that opened. */
  opened = false;
  /** Whether its body begins like an envelope although the account does not encrypt. */
  unexpectedEnvelope = false;
  /** Why its envelope did not open. */
  reason: OpenReason | undefined;
  upstreamFailure: UpstreamFailure | undefined;
  /** The time spent on opening and sealing. */
  envelope = 0;
  /** From sending the request to the upstream to the end of its response. */
  upstream: number | undefined;
  /** From the start to the head of the response, less the time spent waiting for the client and the upstream. */
  overhead: number | undefined;
  /** When the request was sent to the upstream. */
  forwardedAt: number | undefined;
  #waited = 0;
  #waitingSince: number | undefined;

  /** The sidecar waits for the client or the upstream from now on. */
  wait(now: number): void {
    this.resume(now);
    this.#waitingSince = now;
  }

  /** The wait is over. */
  resume(now = performance.now()): void {
    if (this.#waitingSince !== undefined) this.#waited += now - this.#waitingSince;
    this.#waitingSince = undefined;
  }

  /** The response of the upstream is complete, or the upstream has failed. */
  upstreamEnds(now = performance.now()): void {
    this.resume(now);
    if (this.forwardedAt !== undefined) this.upstream = now - this.forwardedAt;
  }

  /** The head of the response is sent. */
  respond(now: number): void {
    this.overhead = now - this.startedAt - this.#waited;
  }
}
