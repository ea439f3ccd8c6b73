import type { Timeouts } from '../config/config.ts';
import { LinkedList } from './linked-list.ts';
import type { Reply } from './reply.ts';

/** The incomplete responses, with their number and their deadlines. */
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

  [Symbol.iterator](): Iterator<Reply> {
    return this.#replies[Symbol.iterator]();
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    for (const reply of this.#replies) reply.drain();
  }

  /** Breaks off all remaining responses. */
  stop(): void {
    clearInterval(this.#sweep);
    for (const reply of this.#replies) reply.breakOff();
  }

  /**
   * One coarse sweep checks all deadlines, because a timer for each request costs microseconds. A timeout is late by at
   * most an eighth of the shortest timeout.
   */
  sweepFor({ request, upstream, idle }: Timeouts): void {
    const interval = Math.min(250, Math.max(10, Math.min(request, upstream, idle) / 8));
    clearInterval(this.#sweep);
    // The process may have been held up, by a throttled CPU for instance: what has arrived meanwhile is read first.
    this.#sweep = setInterval(() => void setImmediate(() => this.#expire()), interval).unref();
  }

  #expire(): void {
    const now = performance.now();
    for (const reply of this.#replies) if (reply.deadline <= now) reply.expire();
  }
}
