import type { Budgets, Claim, Crowd } from './budgets.ts';
import { TickQueue } from './queues.ts';

/**
 * A queue for each crowd: strangers do not keep merchants waiting, nor public keys secret ones, nor the test environment the live
 * one.
 */
export class CrowdQueues {
  readonly #budgets: Budgets;
  readonly #queues: Readonly<Record<Crowd, TickQueue>>;

  /** @param perTick pieces of work of each crowd that start in one turn of the event loop */
  constructor(budgets: Budgets, perTick: number) {
    this.#budgets = budgets;
    this.#queues = {
      anonymous: new TickQueue(perTick),
      testPublic: new TickQueue(perTick),
      livePublic: new TickQueue(perTick),
      test: new TickQueue(perTick),
      live: new TickQueue(perTick),
    };
  }

  /** The queue of those who are billed by this claim. */
  for(claim: Claim): TickQueue {
    return this.#queues[this.#budgets.crowd(claim)];
  }
}
