import type { Directory } from '../accounts/directory.ts';
import type { Timeouts } from '../config/config.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { LinkedList } from './linked-list.ts';
import type { Reply } from './reply.ts';

/** The responses that are not complete: how many there are, and how long they wait. */
export class InFlight {
  readonly #replies = new LinkedList<Reply>();
  #sweep: NodeJS.Timeout | undefined;
  #draining = false;

  get size(): number {
    return this.#replies.size;
  }

  add(reply: Reply): void {
    this.#replies.add(reply);
    if (this.#draining) reply.drain();
  }

  remove(reply: Reply): void {
    this.#replies.remove(reply);
  }

  /** Whether one began with this part, and may yet use it. */
  uses(part: Upstream | Directory): boolean {
    for (const { request } of this.#replies) if (request.rules.has(part)) return true;
    return false;
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    for (const reply of this.#replies) reply.drain();
  }

  /** The WebSockets among them. */
  get webSockets(): readonly Reply[] {
    return [...this.#replies].filter(({ upgraded }) => upgraded);
  }

  /** Breaks off what is still under way. */
  stop(): void {
    clearInterval(this.#sweep);
    for (const reply of this.#replies) reply.breakOff();
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
      for (const reply of this.#replies) if (reply.deadline <= now) reply.expire();
    }, interval).unref();
  }
}
