import { beginReading } from '../config/load-in-thread.ts';
import type { LoadedFiles } from '../config/loaded.ts';
import type { CliIo } from './io.ts';

/** The work that `serve` begins before most of the program is loaded. */
export interface Start {
  readonly signals: StopSignals;
  readonly reading: Promise<LoadedFiles>;
}

/** Begins to read the configuration on another thread, while this thread loads the program. */
export function begin(io: CliIo, file: string): Start {
  // Until there is a configuration to reload, SIGHUP is ignored, so that it does not end the process.
  io.onSignal('SIGHUP', () => {});
  return { signals: stopSignals(io), reading: beginReading({ file, env: io.env }) };
}

/** Promises that resolve at the first and at the second SIGTERM or SIGINT. */
export interface StopSignals {
  readonly first: Promise<void>;
  readonly second: Promise<void>;
}

/** Handles SIGTERM and SIGINT from now on, so that neither ends the process at once. */
export function stopSignals(io: Pick<CliIo, 'onSignal'>): StopSignals {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let signals = 0;
  const handle = (): void => {
    signals += 1;
    (signals === 1 ? first : second).resolve();
  };
  io.onSignal('SIGTERM', handle);
  io.onSignal('SIGINT', handle);
  return { first: first.promise, second: second.promise };
}
