import { Writable } from 'node:stream';
import { App } from '../../src/app.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import type { configOf } from '../../test/support/sidecar.ts';

/** A sidecar in this process that notes what should never have happened. */
export interface WatchedSidecar {
  readonly port: number;
  /** Takes the errors in the log and the uncaught exceptions. */
  takeFaults(): readonly string[];
  stop(): Promise<void>;
}

export async function startWatched(config: ReturnType<typeof configOf>): Promise<WatchedSidecar> {
  const faults: string[] = [];
  const destination = new Writable({
    write(line: Buffer, _encoding, done) {
      // An access line is an error if its status is 5xx, which an upstream's fault may well be.
      const text = line.toString();
      if (!text.endsWith('"msg":"request"}\n')) faults.push(text);
      done();
    },
  });
  const onUncaught = (error: unknown): void => {
    faults.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  };
  process.on('uncaughtException', onUncaught).on('unhandledRejection', onUncaught);
  const log = createLogger('error', destination);
  const app = new App(config, { log, clock: Date.now, version: '0.0.0', env: {} });
  await app.start();
  return {
    port: app.addresses.merchants.port,
    takeFaults: () => faults.splice(0),
    stop: async () => {
      await app.stop();
      process.off('uncaughtException', onUncaught).off('unhandledRejection', onUncaught);
    },
  };
}
