import { isDeepStrictEqual } from 'node:util';
import type { DirectoryState } from '../accounts/key-directory.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ReloadMetrics } from '../telemetry/reload-metrics.ts';
import type { LimitUse } from '../telemetry/sidecar-metrics.ts';
import { formatFileProblem, type FileProblem } from '../yaml/file-problem.ts';
import { chooseAccounts } from './broken-accounts.ts';
import type { Config } from './config.ts';
import { configFiles, type ConfigFile, type FileDigests, type ReloadedFiles } from './loaded.ts';
import type { EpochMs } from '../times.ts';

/** Whether the content of a file is in force. */
export interface FileState {
  /** When the content in force was loaded. */
  readonly loadedAt: EpochMs;
  /** Why the current content is not in force, as `file:line:column  path  message`; empty if it is in force. */
  readonly problems: readonly string[];
}

/** The state of the running sidecar. */
export interface RunningState {
  readonly version: string;
  readonly ready: boolean;
  readonly fileStates: Pick<FileStates, 'of'>;
  /** Members of the configuration that have changed and need a restart. */
  readonly needsRestart: readonly string[];
  /** Undefined if the accounts are in a file. */
  readonly database: DirectoryState | undefined;
  readonly limits: LimitUse;
}

interface FileStatesDependencies {
  readonly log: Logger;
  readonly metrics: ReloadMetrics;
  readonly clock: () => EpochMs;
  /** The digests of the files that the process starts with. */
  readonly digests: FileDigests;
}

/** Records whether the current content of the two files is in force and, if it is not, why. */
export class FileStates {
  readonly #dependencies: FileStatesDependencies;
  readonly #states = new Map<ConfigFile, FileState>();
  /** The digests of the content in force. */
  #digests: FileDigests;

  /** @param config the configuration that the process starts with */
  constructor({ store }: Config, dependencies: FileStatesDependencies) {
    this.#dependencies = dependencies;
    this.#digests = dependencies.digests;
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
   * Applies the valid files of a reload. If a file is invalid, its previous content stays in force.
   *
   * @param apply puts a configuration into effect, or throws and keeps the current one
   * @returns the digests of the applied files whose content has changed
   */
  take(loaded: ReloadedFiles, running: Config, apply: (config: Config) => void): FileDigests {
    const { log, metrics, clock } = this.#dependencies;
    const { accounts, problems } = chooseAccounts(loaded, running);
    const isTriedAgain = loaded.isRepeated === true || loaded.refused?.mayEnd === true;
    const valid: { readonly file: ConfigFile; readonly warnings: readonly FileProblem[] }[] = [];
    for (const file of configFiles) {
      const content = loaded[file];
      const wrong = content?.ok === false ? content.problems : file === 'accounts' ? problems : [];
      if (wrong.length > 0) this.#failed(file, wrong.map(formatFileProblem), isTriedAgain);
      else if (content?.ok === true) valid.push({ file, warnings: content.warnings });
    }
    if (valid.length === 0 && accounts === running.accounts) return {};
    try {
      apply({ ...(loaded.sidecar?.ok === true ? loaded.sidecar.value : running), accounts });
    } catch (error) {
      log.error({ err: error }, 'configuration could not be applied');
      for (const { file } of valid) this.#failed(file, ['could not be applied: see the log']);
      return {};
    }
    const now = clock();
    if (loaded.accounts === undefined && this.#states.delete('accounts')) metrics.removed('accounts');
    for (const { file, warnings } of valid) {
      const told = loaded.isRepeated === true && this.#digests[file] === loaded.digests[file] ? [] : warnings;
      for (const warning of told) log.warn({ problem: formatFileProblem(warning) }, 'configuration');
      this.#states.set(file, { loadedAt: now, problems: [] });
      metrics.reloaded(file, now);
    }
    const changed = valid.map(({ file }) => file).filter((file) => this.#digests[file] !== loaded.digests[file]);
    const digests: FileDigests = Object.fromEntries(changed.map((file) => [file, loaded.digests[file]]));
    this.#digests = { ...this.#digests, ...digests };
    // If no file has changed, the reload is logged only if all files are valid. The problems of a refused file have been logged, and
    // settings that wait for a KMS are logged later.
    const areAll = valid.length === (loaded.accounts === undefined ? 1 : configFiles.length);
    if (changed.length > 0 || areAll) log.info({ files: changed }, 'configuration reloaded');
    return digests;
  }

  #failed(file: ConfigFile, problems: readonly string[], isTriedAgain = false): void {
    const { log, metrics, clock } = this.#dependencies;
    const before = this.of(file);
    this.#states.set(file, { loadedAt: before?.loadedAt ?? clock(), problems });
    metrics.reloadFailed(file);
    if (isTriedAgain && isDeepStrictEqual(problems, before?.problems)) return;
    for (const problem of problems) log.error({ file, problem }, 'configuration is invalid: the current one is kept');
  }
}
