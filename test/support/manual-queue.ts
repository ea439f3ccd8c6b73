import type { Queue } from '../../src/http1/incoming.ts';

/** A queue in which work waits until the test calls the functions in `waiting`. */
export function manualQueue(): { readonly queue: Queue; readonly waiting: (() => void)[] } {
  const waiting: (() => void)[] = [];
  const add = (start: () => void): (() => void) => {
    waiting.push(start);
    return () => void waiting.splice(waiting.indexOf(start), 1);
  };
  return { queue: { add }, waiting };
}
