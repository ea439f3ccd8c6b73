import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setImmediate as turn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/**
 * Waits until a sidecar in this process has read what clients of this process have sent, and they have what it sent:
 * for tests that something does not happen.
 */
export async function settle(): Promise<void> {
  for (let i = 0; i < 50; i += 1) await turn();
}

/** The turn of the event loop in which each response of this process has ended, until the test is over. */
export function turnsOfResponses(): readonly number[] {
  return turnsOf('http.server.response.finish');
}

/** The turn of the event loop in which each connection to this process was accepted, until the test is over. */
export function turnsOfConnections(): readonly number[] {
  return turnsOf('net.server.socket');
}

function turnsOf(channel: string): readonly number[] {
  let turn = 0;
  const countTurns = (): void => {
    turn += 1;
    counting = setImmediate(countTurns);
  };
  let counting = setImmediate(countTurns);
  const turns: number[] = [];
  const onMessage = (): void => void turns.push(turn);
  subscribe(channel, onMessage);
  onTestFinished(() => {
    clearImmediate(counting);
    unsubscribe(channel, onMessage);
  });
  return turns;
}
