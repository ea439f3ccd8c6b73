import { Registry } from 'prom-client';
import { unwrapKeys } from '../accounts/keyring.ts';
import { countAccounts } from '../accounts/postgres/inspect.ts';
import { createDrainToken, drainTokenFile, removeDrainToken, writeDrainToken } from '../admin/drain-token.ts';
import { App, type AppDependencies } from '../app.ts';
import type { Config } from '../config/config.ts';
import { loadInThread, type UnwrapKeys } from '../config/load-in-thread.ts';
import { combine, type FileDigests, type LoadedFiles } from '../config/loaded.ts';
import { fitConnections, readOpenFiles } from '../config/open-files.ts';
import { Reloader } from '../config/reload.ts';
import { formatDuration } from '../input/value-types.ts';
import { callCounter, watchKms } from '../telemetry/kms-watch.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import { masterKeysMetric } from '../telemetry/sidecar-metrics.ts';
import { formatFileProblem } from '../yaml/file-problem.ts';
import { CommandFailed, valid } from './failures.ts';
import { exitCodes, type CliIo } from './io.ts';
import { begin, type StopSignals } from './start.ts';

/**
 * `serve`: runs the sidecar until a signal ends it. Returns the exit code.
 *
 * @param start the work that `begin` has already started
 * @throws CommandFailed if the sidecar cannot start
 */
export async function serve(
  outside: CliIo,
  configFile: string,
  { signals, reading } = begin(outside, configFile),
): Promise<number> {
  const registry = new Registry();
  const counted = callCounter(registry);
  const io: CliIo = { ...outside, keyring: (kms) => counted(outside.keyring(kms)) };
  const created = Promise.withResolvers<Reloader>();
  // A reload can be requested once the listeners are open, which is before the reloader exists. Such a reload waits for the reloader.
  const reload = async (): Promise<void> => (await created.promise).reload();
  io.onSignal('SIGHUP', () => void reload());
  const read = await Promise.race([loadPatiently(io, configFile, reading), signals.first]);
  // A signal arrived before anything was started.
  if (read === undefined) return exitCodes.done;
  const loaded = valid(combine(fitConnections(read, configFile, readOpenFiles())));
  const { config, warnings, files, digests } = loaded;
  const log = createLogger(config.log.level, io.log);
  await logStart(log, io, { configuration: configFile, configuration_hash: digests.sidecar }, config);
  for (const warning of warnings) log.warn({ problem: formatFileProblem(warning) }, 'configuration');
  const drainToken = createDrainToken();
  const app = await startApp(io, loaded, log, { drainToken, reload, registry });
  const kms = watchKms(registry, log, () => app.settings.kms && io.keyring(app.settings.kms));
  masterKeysMetric(
    registry,
    () => app.settings,
    () => kms.status()?.keyId,
  );
  // The token is written only after the listeners have opened. Otherwise it could replace the token of a sidecar that is already running.
  const tokenFile = drainTokenFile(configFile, io.env);
  await storeDrainToken(tokenFile, drainToken, log);

  const reloader = createReloader(io, configFile, app, log);
  reloader.watch(files);
  created.resolve(reloader);
  return untilStopped(signals, log, async () => {
    kms.stop();
    await app.stop(() => reloader.stop());
    // If the token cannot be removed, it was never written, or it does no harm.
    await removeDrainToken(tokenFile, drainToken).catch(() => {});
  });
}

/**
 * Loads the configuration. Waits if the KMS is not available yet. @throws AccountsError if the KMS refuses, or is still unavailable after
 * the wait
 */
async function loadPatiently(io: CliIo, file: string, reading: Promise<LoadedFiles>): Promise<LoadedFiles> {
  const unwrap: UnwrapKeys = ({ kms, keys }) => {
    const warn = ({ message: problem }: Error): void =>
      createLogger('info', io.log).warn({ problem }, `waiting up to ${formatDuration(kms.wait)} for the KMS`);
    return unwrapKeys(io.keyring(kms), keys, { wait: kms.wait, warn });
  };
  return loadInThread({ file, env: io.env }, { unwrap, first: reading });
}

/**
 * Logs the first line, which says what runs and with which configuration. `configuration_hash` is the same as in the trail's event
 * `configuration_changed`.
 */
async function logStart(log: Logger, { version }: CliIo, configuration: object, config: Config): Promise<void> {
  const { environments, store, accounts } = config;
  const stored =
    store.type === 'file'
      ? { store: store.file, accounts: accounts.length }
      : { store: 'postgres', ...(await describeCount(store.url)) };
  const names = environments.map(({ name }) => name);
  log.info({ version, node: process.version, ...configuration, environments: names, ...stored }, 'starting');
}

/** The number of accounts in a database, or why the number is unknown. An unknown number does not keep the sidecar from starting. */
async function describeCount(url: string): Promise<object> {
  try {
    return { accounts: await countAccounts(url) };
  } catch (error) {
    return { accounts_unknown: (error as Error).message };
  }
}

/** Creates the reloader, which loads the configuration again and applies it to the sidecar, on request or when a watched file changes. */
export function createReloader({ env, keyring }: CliIo, file: string, app: App, log: Logger): Reloader {
  return new Reloader({
    file,
    env,
    running: () => app.settings.store,
    unwrap: ({ kms, keys }) => unwrapKeys(keyring(kms), keys),
    apply: (files) => app.reload(fitConnections(files, file, readOpenFiles())),
    log,
  });
}

/** Starts the sidecar. @throws CommandFailed if its listeners cannot be opened */
export async function startApp(
  { clock, version, env }: CliIo,
  { config, digests }: { readonly config: Config; readonly digests: FileDigests },
  log: Logger,
  more: Pick<AppDependencies, 'drainToken' | 'reload' | 'registry'> = {},
): Promise<App> {
  const app = new App(config, { log, clock, version, env, digests, ...more });
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

/** Waits for the first signal, then stops the sidecar gracefully. A second signal ends it at once. Returns the exit code. */
export async function untilStopped(signals: StopSignals, log: Logger, stop: () => Promise<void>): Promise<number> {
  await signals.first;
  log.info('stopping');
  return Promise.race([stop().then(() => exitCodes.done), signals.second.then(() => exitCodes.failed)]);
}
