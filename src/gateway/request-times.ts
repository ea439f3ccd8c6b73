/** Where the time of one request goes. In milliseconds, points in time on `performance.now()`'s scale. */
export class RequestTimes {
  readonly startedAt = performance.now();
  /** From handing the request to the upstream to the end of its response. */
  upstream: number | undefined;
  /** To the head of the response, without waiting for the client's body and for the upstream. */
  overhead: number | undefined;
  #forwardedAt: number | undefined;
  #waited = 0;
  #waitingSince: number | undefined;

  /** The client or the upstream is waited for from now on, perhaps still. Returns now. */
  wait(): number {
    const now = performance.now();
    this.#stopWaiting(now);
    this.#waitingSince = now;
    return now;
  }

  /** What was waited for is here. */
  resume(): void {
    this.#stopWaiting(performance.now());
  }

  /** The request is handed to the upstream. */
  forward(): void {
    this.#forwardedAt = this.wait();
  }

  /** The upstream has responded in whole, or has failed. */
  upstreamEnds(): void {
    const now = performance.now();
    this.#stopWaiting(now);
    if (this.#forwardedAt !== undefined) this.upstream = now - this.#forwardedAt;
  }

  /** The head of the response goes out. */
  respond(): void {
    this.overhead = performance.now() - this.startedAt - this.#waited;
  }

  #stopWaiting(now: number): void {
    if (this.#waitingSince !== undefined) this.#waited += now - this.#waitingSince;
    this.#waitingSince = undefined;
  }
}
