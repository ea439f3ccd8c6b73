import type { Timeouts } from '../config/config.ts';
import { LinkedList } from './linked-list.ts';
import type { Reply } from './reply.ts';

/** The replies that are not over, and their deadlines. */
export class ActiveReplies extends LinkedList<Reply> {
  #sweep: NodeJS.Timeout | undefined;
  #draining = false;

  override add(reply: Reply): void {
    super.add(reply);
    if (this.#draining) reply.drain();
  }

  /** From now on every response closes its connection. */
  drain(): void {
    this.#draining = true;
    for (const reply of this) reply.drain();
  }

  /** Aborts all remaining responses. */
  stop(): void {
    clearInterval(this.#sweep);
    for (const reply of this) reply.abort();
  }

  /**
   * One coarse sweep checks all deadlines, because a timer for each request costs microseconds. A timeout is late by at
   * most an eighth of the shortest timeout.
   */
  sweepFor({ request, upstream, idle }: Timeouts): void {
    const interval = Math.min(250, Math.max(10, Math.min(request, upstream, idle) / 8));
    clearInterval(this.#sweep);
    // The process may have been held up, for instance by CPU throttling: data that arrived meanwhile is read first.
    this.#sweep = setInterval(() => void setImmediate(() => this.#expire()), interval).unref();
  }

  #expire(): void {
    const now = performance.now();
    for (const reply of this) if (reply.deadline <= now) reply.expire();
  }
}
