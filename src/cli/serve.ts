import { App } from '../app.ts';
import type { Config } from '../config/config.ts';
import { formatProblem, loadConfig } from '../config/load.ts';
import { Reloader } from '../config/reload.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { exitCodes, type CliIo } from './io.ts';

/** `serve`: runs the sidecar until a signal ends it. Returns the exit code. */
export async function serve(io: CliIo, configFile: string): Promise<number> {
  const readSince = io.clock();
  const loaded = loadConfig(configFile, io.env);
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.stderr.write(`${formatProblem(problem)}\n`);
    return exitCodes.configuration;
  }
  const log = createLogger(loaded.config.log.level, io.log);
  for (const warning of loaded.warnings) log.warn({ problem: formatProblem(warning) }, 'configuration');
  const app = await startApp(io, 'serve', loaded.config, log);
  if (app === undefined) return exitCodes.failed;

  const reloader = new Reloader(configFile, io.env, io.clock, (reloaded) => {
    if (reloaded.ok) {
      for (const warning of reloaded.warnings) log.warn({ problem: formatProblem(warning) }, 'configuration');
      app.apply(reloaded.config);
    } else {
      app.reloadFailed(reloaded.problems.map(formatProblem));
    }
  });
  reloader.watch(loaded.files, readSince);
  io.onSignal('SIGHUP', () => reloader.reload());
  return untilSignal(io, log, () => {
    reloader.stop();
    return app.stop();
  });
}

/** Starts the sidecar, or says in one line why its listeners cannot be opened. */
export async function startApp(io: CliIo, command: string, config: Config, log: Logger): Promise<App | undefined> {
  const app = new App(config, { log, clock: io.clock, version: io.version, env: io.env });
  try {
    await app.start();
    return app;
  } catch (error) {
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    io.stderr.write(`${command}: ${error.message}\n`);
    return undefined;
  }
}

/** Waits for SIGTERM or SIGINT, then stops in good order; a second one ends it at once. */
export async function untilSignal(io: CliIo, log: Logger, stop: () => Promise<void>): Promise<number> {
  let second: (() => void) | undefined;
  const endAtOnce = new Promise<number>((resolve) => {
    second = () => resolve(exitCodes.failed);
  });
  await new Promise<void>((resolve) => {
    let signals = 0;
    const handle = (): void => {
      signals += 1;
      if (signals === 1) resolve();
      else second?.();
    };
    io.onSignal('SIGTERM', handle);
    io.onSignal('SIGINT', handle);
  });
  log.info('stopping');
  return Promise.race([stop().then(() => exitCodes.done), endAtOnce]);
}
