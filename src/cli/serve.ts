import { createDrainToken, drainTokenFile, writeDrainToken } from '../admin/drain-token.ts';
import { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { loadInThread } from '../config/load-in-thread.ts';
import { combine } from '../config/loaded.ts';
import { Reloader } from '../config/reload.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { formatFileProblem } from '../yaml/file-problem.ts';
import { CommandFailed, valid } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';

/** `serve`: runs the sidecar until a signal ends it. Returns the exit code. @throws CommandFailed if it cannot start */
export async function serve(io: CliIo, configFile: string): Promise<number> {
  // Without a configuration to reload, SIGHUP is ignored, so that it does not end the process.
  let reloader: Reloader | undefined;
  io.onSignal('SIGHUP', () => void reloader?.reload());
  const signals = stopSignals(io);
  const readSince = io.clock();
  const read = await Promise.race([loadInThread({ file: configFile, env: io.env }, []), signals.first]);
  // A signal arrived before anything was started.
  if (read === undefined) return exitCodes.done;
  const { config, warnings, files } = valid(combine(read));
  const log = createLogger(config.log.level, io.log);
  for (const warning of warnings) log.warn({ problem: formatFileProblem(warning) }, 'configuration');
  const drainToken = createDrainToken();
  const app = await startApp(io, config, log, { drainToken, reload: async () => reloader?.reload() });
  // Written only when the listeners are open, so that it cannot replace the token of another running sidecar.
  await storeDrainToken(drainTokenFile(configFile, io.env), drainToken, log);

  reloader = createReloader(io, configFile, app, log);
  reloader.watch(files, readSince);
  return untilStopped(signals, log, () => {
    reloader.stop();
    return app.stop();
  });
}

/** Loads a configuration again and applies it to the sidecar, when it is told to or one of the watched files changes. */
export function createReloader({ env, clock }: CliIo, file: string, app: App, log: Logger): Reloader {
  return new Reloader({ file, env, clock, running: () => app.store, apply: (files) => app.reload(files), log });
}

/** Starts the sidecar. @throws CommandFailed if its listeners cannot be opened */
export async function startApp(
  { clock, version, env }: CliIo,
  config: Config,
  log: Logger,
  commands: { readonly drainToken?: string; readonly reload?: () => Promise<void> } = {},
): Promise<App> {
  const app = new App(config, { log, clock, version, env, ...commands });
  try {
    await app.start();
    return app;
  } catch (error) {
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    throw new CommandFailed(error.message);
  }
}

async function storeDrainToken(file: string, token: string, log: Logger): Promise<void> {
  try {
    await writeDrainToken(file, token);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    log.warn({ file, cause: code }, 'drain is disabled: its token cannot be written');
  }
}

/** The first and the second SIGTERM or SIGINT. */
interface StopSignals {
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

/** Waits for the first signal, then stops gracefully; a second one ends it at once. Returns the exit code. */
export async function untilStopped(signals: StopSignals, log: Logger, stop: () => Promise<void>): Promise<number> {
  await signals.first;
  log.info('stopping');
  return Promise.race([stop().then(() => exitCodes.done), signals.second.then(() => exitCodes.failed)]);
}
