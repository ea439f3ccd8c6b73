import { sliceLength } from '../../envelope/slices.ts';
import { LinkedList, type Linked } from '../../linked-list.ts';
import type { Responder } from '../respond/responder.ts';

/** A body that waits for its turn. */
class WaitingBody implements Linked<WaitingBody> {
  previous: WaitingBody | undefined;
  next: WaitingBody | undefined;
  /** Never rejects. */
  readonly start: () => Promise<void>;

  constructor(start: () => Promise<void>) {
    this.start = start;
  }
}

/**
 * Long bodies are checked and opened one after another: only one at a time takes memory beside its bytes, and the slices of
 * several do not add up in a turn of the event loop.
 */
export class LongBodies {
  readonly #waiting = { live: new LinkedList<WaitingBody>(), test: new LinkedList<WaitingBody>() };
  #isBusy = false;

  /**
   * Works on a body: at once if it is short, otherwise in its turn, those of live first.
   *
   * @param work must not refer to the body elsewhere. Not called if the request ends before its turn: the promise then never
   *   settles, and nothing refers to the body any more
   */
  run<T>(responder: Responder, body: Buffer, work: (body: Buffer) => T | Promise<T>): T | Promise<T> {
    if (body.length <= sliceLength) return work(body);
    const list = this.#waiting[responder.exchange.environment?.name ?? 'test'];
    return new Promise((resolve, reject) => {
      const waiting = new WaitingBody(async () => {
        responder.endWait = undefined;
        try {
          resolve(await work(body));
        } catch (error) {
          reject(error);
        }
      });
      list.add(waiting);
      responder.endWait = () => list.remove(waiting);
      if (!this.#isBusy) void this.#workOff();
    });
  }

  async #workOff(): Promise<void> {
    const { live, test } = this.#waiting;
    this.#isBusy = true;
    for (;;) {
      const list = live.first === undefined ? test : live;
      const { first } = list;
      if (first === undefined) break;
      list.remove(first);
      await first.start();
    }
    this.#isBusy = false;
  }
}
