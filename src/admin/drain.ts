import type { Logger } from '../telemetry/logger.ts';
import { waitUntil } from '../promises.ts';
import type { Readiness } from './readiness.ts';
import type { MonotonicMs } from '../times.ts';

/** How long idle connections stay open at shutdown, in milliseconds, so that a request that is already on its way gets its response. */
const idleLinger = 1_000;

interface DrainDependencies {
  readonly log: Logger;
  readonly readiness: Readiness;
  /** The merchants' listener. */
  readonly listener: { readonly size: number; close(): void; closeAll(): void };
  /** The listener's requests. `drain` makes each connection close after its next response; `stop` aborts requests in progress. */
  readonly proxy: { readonly active: { readonly size: number }; drain(): void; stop(): void };
  readonly monotonic: () => MonotonicMs;
}

/** Takes the sidecar out of service without losing requests, within a time limit. */
export class Drain {
  readonly #dependencies: DrainDependencies;
  #drained: Promise<void> | undefined;
  /** When the drain's time is over, by the `monotonic` clock. */
  #deadline = 0;

  constructor(dependencies: DrainDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Ends readiness, and closes each connection after its next response. Resolves when no request is in flight or the timeout has passed.
   *
   * @param timeout in milliseconds; only the first call's timeout counts
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

  /** Begins the drain, closes the listener, waits for requests in flight until the deadline, then closes all connections. */
  async finish(timeout: number): Promise<void> {
    void this.begin(timeout);
    const { listener, proxy, monotonic } = this.#dependencies;
    // If an earlier drain has used up its time, requests that have arrived since then still get a short time to finish.
    const end = Math.max(this.#deadline, monotonic() + idleLinger);
    await waitUntil(() => listener.size === 0, idleLinger);
    // Close the listener even if requests are in flight, because new connections would use up the time that those requests have left.
    listener.close();
    await waitUntil(() => proxy.active.size === 0, end - monotonic());
    proxy.stop();
    listener.closeAll();
    // Wait for aborted requests, which are logged when their connections report that they have closed.
    await waitUntil(() => proxy.active.size === 0, idleLinger);
  }
}
