import type { Directory } from '../accounts/directory.ts';
import type { Timeouts } from '../config/config.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { GatewayRequest } from './gateway-request.ts';
import { LinkedList } from './linked-list.ts';

/** The requests whose response is not complete: how many there are, and how long they wait. */
export class InFlight {
  readonly #requests = new LinkedList<GatewayRequest>();
  #sweep: NodeJS.Timeout | undefined;
  #draining = false;

  get size(): number {
    return this.#requests.size;
  }

  add(request: GatewayRequest): void {
    this.#requests.add(request);
    if (this.#draining) request.drain();
  }

  remove(request: GatewayRequest): void {
    this.#requests.remove(request);
  }

  /** Whether one began with this part, and may yet use it. */
  uses(part: Upstream | Directory): boolean {
    for (const request of this.#requests) if (request.rules.has(part)) return true;
    return false;
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    for (const request of this.#requests) request.drain();
  }

  /** The WebSockets among them. */
  get webSockets(): readonly GatewayRequest[] {
    return [...this.#requests].filter(({ upgraded }) => upgraded);
  }

  /** Breaks off what is still under way. */
  stop(): void {
    clearInterval(this.#sweep);
    for (const request of this.#requests) request.breakOff();
  }

  /**
   * One coarse sweep over all requests keeps their deadlines. A timer of its own for each would cost every request
   * microseconds for what hardly ever happens; like this, none is late by more than an eighth of the shortest timeout.
   */
  sweepFor({ request, upstream, idle }: Timeouts): void {
    const interval = Math.min(250, Math.max(10, Math.min(request, upstream, idle) / 8));
    clearInterval(this.#sweep);
    this.#sweep = setInterval(() => {
      const now = performance.now();
      for (const open of this.#requests) if (open.deadline <= now) open.expire();
    }, interval).unref();
  }
}
