import { ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished, vi } from 'vitest';
import { ServerExchange } from '../../src/http1/exchange.ts';
import type { Waiter } from '../../src/wait-queue.ts';

/**
 * Waits until a sidecar and clients in this process have read what they have sent each other. This is for tests that check that something
 * does not happen.
 */
export async function settle(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await turn();
}

/** A request that waits for its turn and never ends. */
export const waiter: Waiter = { wait: (queue) => new Promise((resolve) => void queue.add(resolve)) };

/**
 * Records the turn of the event loop in which each response of this process ends, until the test is over.
 *
 * @param status counts only responses with this status; by default, all
 */
export function turnsOfResponses(status?: number): readonly number[] {
  const { turns, count, stop } = countTurns();
  onEachResponse((exchange) => {
    if (status === undefined || exchange.status === status) count();
  });
  onTestFinished(stop);
  return turns;
}

/** Like `turnsOfResponses`, but for listeners that use Node's HTTP server. Also records the statuses. */
export function turnsOfOtherResponses(): { readonly turns: readonly number[]; readonly statuses: readonly number[] } {
  const { turns, count, stop } = countTurns();
  const statuses: number[] = [];
  const spy = vi.spyOn(ServerResponse.prototype, 'end').mockImplementation(function (this: ServerResponse, ...last) {
    count();
    statuses.push(this.statusCode);
    return Reflect.apply(endOther, this, last) as ServerResponse;
  });
  onTestFinished(stop);
  onTestFinished(() => spy.mockRestore());
  return { turns, statuses };
}

/** Calls `ends` for every response that this process ends, until the test is over. */
export function onEachResponse(ends: (exchange: ServerExchange) => void): void {
  const spy = vi.spyOn(ServerExchange.prototype, 'end').mockImplementation(function (this: ServerExchange, ...last) {
    ends(this);
    Reflect.apply(end, this, last);
  });
  onTestFinished(() => spy.mockRestore());
}

// eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object
const { end } = ServerExchange.prototype;
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object
const { end: endOther } = ServerResponse.prototype;

function countTurns(): { readonly turns: readonly number[]; readonly count: () => void; readonly stop: () => void } {
  const turns: number[] = [];
  let turn = 0;
  const next = (): void => {
    turn += 1;
    counting = setImmediate(next);
  };
  let counting = setImmediate(next);
  return { turns, count: () => void turns.push(turn), stop: () => clearImmediate(counting) };
}
