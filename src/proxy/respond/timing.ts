import type { Timeouts } from '../../config/config.ts';
import type { MonotonicMs } from '../../times.ts';

/** The configured timeout for each kind of wait. */
export const timeoutNames = {
  request_timeout: 'request',
  upstream_timeout: 'upstream',
  client_stalled: 'idle',
  // The wait of a preflight for a place in flight.
  overloaded: 'upstream',
} as const satisfies Readonly<Record<string, keyof Timeouts>>;

/** What an expired deadline means. */
export type Wait = keyof typeof timeoutNames;

/** The durations of one request in milliseconds; points in time are on `performance.now()`'s scale. */
export class Timing {
  readonly startedAt: MonotonicMs;
  /** The time for opening and sealing. */
  envelope = 0;
  /** From sending the request to the upstream to the end of its response. */
  upstream: number | undefined;
  /** From the start to the head of the response, less the time spent waiting for the client and the upstream. */
  overhead: number | undefined;
  #sentAt: number | undefined;
  #waited = 0;
  #waitingSince: number | undefined;

  constructor(startedAt: MonotonicMs) {
    this.startedAt = startedAt;
  }

  /** The sidecar waits for the client or the upstream from now on. */
  wait(now: MonotonicMs): void {
    this.resume(now);
    this.#waitingSince = now;
  }

  /** The wait is over. */
  resume(now = performance.now()): void {
    if (this.#waitingSince !== undefined) this.#waited += now - this.#waitingSince;
    this.#waitingSince = undefined;
  }

  /** The request is sent to the upstream. */
  send(now: MonotonicMs): void {
    this.#sentAt = now;
  }

  /** The response of the upstream is complete, or the upstream has failed. */
  endUpstream(now = performance.now()): void {
    this.resume(now);
    if (this.#sentAt !== undefined) this.upstream = now - this.#sentAt;
  }

  /** The head of the response is sent. */
  respond(now: MonotonicMs): void {
    this.overhead = now - this.startedAt - this.#waited;
  }
}
