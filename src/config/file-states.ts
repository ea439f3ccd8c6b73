import type { Logger } from '../telemetry/logger.ts';
import type { ReloadMetrics } from '../telemetry/reload-metrics.ts';
import { formatFileProblem, type FileProblem } from '../yaml/file-problem.ts';
import type { Config } from './config.ts';
import { configFiles, type ConfigFile, type LoadedFiles } from './loaded.ts';

/** Whether the content of a file is in force. */
export interface FileState {
  /** When the content in force was loaded. Epoch milliseconds. */
  readonly loadedAt: number;
  /** Why the current content is not in force, as `file:line:column  path  message`; empty if it is. */
  readonly problems: readonly string[];
}

interface FileStatesDependencies {
  readonly log: Logger;
  readonly metrics: ReloadMetrics;
  /** Epoch milliseconds. */
  readonly clock: () => number;
}

/** Records whether the current content of the two files is in force, and if it is not, why. */
export class FileStates {
  readonly #dependencies: FileStatesDependencies;
  readonly #states = new Map<ConfigFile, FileState>();

  /** @param config the configuration that the process starts with */
  constructor({ store }: Config, dependencies: FileStatesDependencies) {
    this.#dependencies = dependencies;
    const now = dependencies.clock();
    for (const file of configFiles) {
      if (file === 'accounts' && store.type !== 'file') continue;
      this.#states.set(file, { loadedAt: now, problems: [] });
      dependencies.metrics.loaded(file, now);
    }
  }

  /** The state of a file; undefined for `accounts` if the accounts are not in a file. */
  of(file: ConfigFile): FileState | undefined {
    return this.#states.get(file);
  }

  /**
   * Applies the valid files of a reload. The current content of an invalid file is kept.
   *
   * @param apply puts a configuration in force, or throws and leaves the current one
   */
  take(loaded: LoadedFiles, running: Config, apply: (config: Config) => void): void {
    const { log, metrics, clock } = this.#dependencies;
    const valid: { readonly file: ConfigFile; readonly warnings: readonly FileProblem[] }[] = [];
    for (const file of configFiles) {
      const content = loaded[file];
      if (content?.ok === true) valid.push({ file, warnings: content.warnings });
      if (content?.ok === false) this.#failed(file, content.problems.map(formatFileProblem));
    }
    if (valid.length === 0) return;
    try {
      apply(configOf(loaded, running));
    } catch (error) {
      log.error({ err: error }, 'configuration could not be applied');
      for (const { file } of valid) this.#failed(file, ['could not be applied: see the log']);
      return;
    }
    const now = clock();
    if (loaded.accounts === undefined && this.#states.delete('accounts')) metrics.removed('accounts');
    for (const { file, warnings } of valid) {
      for (const warning of warnings) log.warn({ problem: formatFileProblem(warning) }, 'configuration');
      this.#states.set(file, { loadedAt: now, problems: [] });
      metrics.reloaded(file, now);
    }
    log.info({ files: valid.map(({ file }) => file) }, 'configuration reloaded');
  }

  #failed(file: ConfigFile, problems: readonly string[]): void {
    const { log, metrics, clock } = this.#dependencies;
    this.#states.set(file, { loadedAt: this.of(file)?.loadedAt ?? clock(), problems });
    metrics.reloadFailed(file);
    for (const problem of problems) log.error({ file, problem }, 'configuration is invalid: the current one is kept');
  }
}

/** The new content of valid files, and the current content of the others. */
function configOf({ sidecar, accounts }: LoadedFiles, running: Config): Config {
  const settings = sidecar.ok ? sidecar.value : running;
  if (settings.store.type === 'postgres') return { ...settings, accounts: [] };
  return { ...settings, accounts: accounts?.ok === true ? accounts.value : running.accounts };
}
