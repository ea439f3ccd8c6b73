import type { Timeouts } from '../../config/config.ts';
import type { MonotonicMs } from '../../times.ts';

/** The configured timeout for each kind of wait. */
export const timeoutNames = {
  request_timeout: 'request',
  upstream_timeout: 'upstream',
  client_stalled: 'idle',
  // The upstream timeout also limits how long a preflight waits for a slot.
  overloaded: 'upstream',
} as const satisfies Readonly<Record<string, keyof Timeouts>>;

/**
 * What a request is waiting for. If the wait takes too long, the request is refused with this code; `client_stalled` closes the connection
 * instead.
 */
export type Wait = keyof typeof timeoutNames;

/** Measures the durations of one request in milliseconds. Times are from `performance.now()`. */
export class Timing {
  readonly startedAt: MonotonicMs;
  /** The time spent on opening and sealing. */
  envelope = 0;
  /** The time from sending the request to the upstream until the end of the upstream's response. */
  upstream: number | undefined;
  /** The time from the start of the request to the head of its response, minus the time spent waiting for the client and the upstream. */
  overhead: number | undefined;
  #sentAt: number | undefined;
  #waited = 0;
  #waitingSince: number | undefined;

  constructor(startedAt: MonotonicMs) {
    this.startedAt = startedAt;
  }

  /** Called when the sidecar begins to wait for the client or the upstream. */
  wait(now: MonotonicMs): void {
    this.resume(now);
    this.#waitingSince = now;
  }

  /** Called when the wait is over. */
  resume(now = performance.now()): void {
    if (this.#waitingSince !== undefined) this.#waited += now - this.#waitingSince;
    this.#waitingSince = undefined;
  }

  /** Called when the request is sent to the upstream. */
  send(now: MonotonicMs): void {
    this.#sentAt = now;
  }

  /** Called when the response from the upstream is complete, or the upstream has failed. */
  endUpstream(now = performance.now()): void {
    this.resume(now);
    if (this.#sentAt !== undefined) this.upstream = now - this.#sentAt;
  }

  /** Called when the head of the response is sent. */
  respond(now: MonotonicMs): void {
    this.overhead = now - this.startedAt - this.#waited;
  }
}
