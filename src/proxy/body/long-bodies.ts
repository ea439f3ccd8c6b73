import { sliceLength } from '../../envelope/slices.ts';
import { Semaphore, WaitQueue } from '../capacity/queues.ts';
import type { Responder } from '../respond/responder.ts';

/**
 * Long bodies are checked and opened one after another, those of live first: only one at a time takes memory beside its bytes,
 * and the slices of several do not add up in a turn of the event loop.
 */
export class LongBodies {
  readonly #queues = { live: new WaitQueue(), test: new WaitQueue() };
  readonly #semaphore = new Semaphore(this.#queues.live, this.#queues.test);

  /**
   * Works on a body: at once if it is short, otherwise in its turn.
   *
   * @param work must not refer to the body elsewhere. Not called if the request ends before its turn: the promise then never
   *   settles, and nothing refers to the body any more
   */
  run<T>(
    responder: Pick<Responder, 'exchange' | 'reservation'>,
    body: Buffer,
    work: (body: Buffer) => T | Promise<T>,
  ): T | Promise<T> {
    if (body.length <= sliceLength) return work(body);
    const queue = this.#queues[responder.exchange.environment?.name ?? 'test'];
    return this.#semaphore.run(1, queue, responder.reservation, () => work(body));
  }
}
