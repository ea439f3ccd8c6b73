import type { Logger } from '../telemetry/logger.ts';
import { waitUntil } from '../promises.ts';
import type { Readiness } from './readiness.ts';
import type { MonotonicMs } from '../times.ts';

/** How long idle connections stay open at shutdown, so that a request just sent on one still gets its response. Milliseconds. */
const idleLinger = 1_000;

interface DrainDependencies {
  readonly log: Logger;
  readonly readiness: Readiness;
  /** The merchants' listener. */
  readonly listener: { readonly size: number; close(): void; closeAll(): void };
  /** The listener's requests. `drain` makes each connection close with its next response; `stop` aborts requests in progress. */
  readonly proxy: { readonly active: { readonly size: number }; drain(): void; stop(): void };
  readonly monotonic: () => MonotonicMs;
}

/** Takes the sidecar out of service without losing requests, within a time limit. */
export class Drain {
  readonly #dependencies: DrainDependencies;
  #drained: Promise<void> | undefined;
  /** On the scale of `monotonic`. */
  #deadline = 0;

  constructor(dependencies: DrainDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Ends readiness and closes connections with their next response. Resolves when nothing is in flight or the time is over.
   *
   * @param timeout milliseconds; the first call decides
   */
  begin(timeout: number): Promise<void> {
    if (this.#drained === undefined) {
      const { log, readiness, proxy, monotonic } = this.#dependencies;
      readiness.end();
      proxy.drain();
      log.info('draining');
      this.#deadline = monotonic() + timeout;
      this.#drained = waitUntil(() => proxy.active.size === 0, timeout);
    }
    return this.#drained;
  }

  /** Begins the drain unless it has begun, waits for the requests in flight until the deadline, then closes the listener. */
  async finish(timeout: number): Promise<void> {
    void this.begin(timeout);
    const { listener, proxy, monotonic } = this.#dependencies;
    // If an earlier drain has used up its time, later requests still get a short time.
    const end = Math.max(this.#deadline, monotonic() + idleLinger);
    await waitUntil(() => listener.size === 0, idleLinger);
    // Closed even with requests in flight: new connections would use up their remaining time.
    listener.close();
    await waitUntil(() => proxy.active.size === 0, end - monotonic());
    proxy.stop();
    listener.closeAll();
    // An aborted request is logged when its connection reports that it is closed.
    await waitUntil(() => proxy.active.size === 0, idleLinger);
  }
}
