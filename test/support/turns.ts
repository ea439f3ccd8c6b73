import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { onTestFinished } from 'vitest';

/** The turn of the event loop in which each response of this process has ended, until the test is over. */
export function turnsOfResponses(): readonly number[] {
  let turn = 0;
  const countTurns = (): void => {
    turn += 1;
    counting = setImmediate(countTurns);
  };
  let counting = setImmediate(countTurns);
  const turns: number[] = [];
  const onResponse = (): void => void turns.push(turn);
  subscribe('http.server.response.finish', onResponse);
  onTestFinished(() => {
    clearImmediate(counting);
    unsubscribe('http.server.response.finish', onResponse);
  });
  return turns;
}
