import { watch, type FSWatcher } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Logger } from '../telemetry/logger.ts';
import { readStats, readVersion, type FileVersions } from '../yaml/files.ts';
import type { Env } from '../yaml/values.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import { loadInThread, LoadThread, type UnwrapKeys } from './load-in-thread.ts';
import type { WorkerTask } from './load-messages.ts';
import type { StoreSettings } from './config.ts';
import { lockedKeys, type LoadedFiles, type LockedKeys, type ReloadedFiles } from './loaded.ts';
import type { RefusedStore } from './try-store.ts';

/** A file is often written in several steps. It is read this many milliseconds after the last step. */
const settleTime = 100;

/** A file that is written continuously is read this many milliseconds after the first step. */
export const maxSettleTime = 500;

/**
 * How often files are compared with the versions that were read last, in milliseconds. Watching alone is not enough, because it fails
 * silently if a folder, or a link above it, is replaced.
 */
export const pollInterval = 10_000;

/**
 * How long the loading thread waits for the next change, in milliseconds. The token of a single account may make one change after another,
 * and a thread that is still running loads the files faster than a new one.
 */
const idleTime = 5_000;

/** A watched folder, which may be replaced by another folder of the same name. */
interface WatchedPath {
  readonly watcher: FSWatcher;
  readonly identity: string;
}

interface ReloaderOptions {
  /** The sidecar's file. */
  readonly file: string;
  readonly env: Env;
  /** Returns the current store. */
  readonly running: () => StoreSettings;
  readonly unwrap: UnwrapKeys;
  readonly apply: (loaded: ReloadedFiles) => void;
  readonly log: Logger;
}

/** Watches and polls the files of the configuration. Another thread reads and validates them; `apply` puts them into effect. */
export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #watched = new Map<string, WatchedPath>();
  /** Folders that cannot be watched and for which a warning has been logged. */
  readonly #unwatched = new Set<string>();
  /** The versions that were read last. */
  #files: FileVersions = new Map();
  #polling: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;
  #settlingAtMost: NodeJS.Timeout | undefined;
  readonly #thread = new LoadThread(idleTime);
  #loading = false;
  /** Settles after the load in progress. */
  #load: Promise<void> = Promise.resolve();
  /** Settles after the load that follows the one in progress; undefined if no such load has been requested. */
  #next: Promise<void> | undefined;
  /** Whether the next load tries a refused store again, because someone has asked for a reload. */
  #isAsked = false;
  /** Settles once a KMS has been asked to unwrap master keys and the files have been loaded again. */
  #unlocking: Promise<void> | undefined;
  /** Master keys that the KMS has unwrapped. Later loads reuse them until a configuration with them is in force. */
  #unwrapped: readonly MasterKey[] = [];
  /** The store that was refused last. */
  #refused: RefusedStore | undefined;
  /** Whether the refused store is being tried again now. */
  #retrying = false;
  /** Whether the latest load refused a file for a reason other than the store. */
  #hasFailed = false;
  #stopped = false;

  constructor(options: ReloaderOptions) {
    this.#options = options;
  }

  /** Watches `files` and no other files. A file that no longer has the version in `files` is read again. */
  watch(files: FileVersions): void {
    this.#files = files;
    this.#polling ??= setInterval(() => this.#poll(), pollInterval).unref();
    this.#watchFolders();
    // Until a file's name is known and its folder is watched, changes to the file are ignored.
    if (this.#isOutdated()) this.#changed();
  }

  #isOutdated(): boolean {
    return [...this.#files].some(([file, version]) => readVersion(file) !== version);
  }

  /** Watches the folders of all files. */
  #watchFolders(): void {
    const folders = new Set([...this.#files.keys()].map((file) => dirname(file)));
    for (const [folder, { watcher, identity }] of this.#watched) {
      const isNeeded = folders.has(folder);
      const found = readIdentity(folder);
      // Watches that are still needed are kept, because closing them would lose their pending events.
      if (isNeeded && found === identity) continue;
      if (isNeeded && found !== '')
        this.#options.log.warn(
          { folder },
          'a folder was replaced and its watcher did not report it: the change was noticed late, and the folder is watched again',
        );
      watcher.close();
      this.#watched.delete(folder);
    }
    for (const folder of folders) if (!this.#watched.has(folder)) this.#watchFolder(folder);
  }

  #poll(): void {
    if (this.#loading) return;
    this.#watchFolders();
    if (this.#isOutdated()) this.#changed();
    else if (this.#refused?.mayEnd === true && !this.#retrying) void this.#retry();
    // Try again, because a lack of memory, for example, may have caused the failure. A revocation must not wait until a file changes again.
    else if (this.#hasFailed) void this.#reload(true);
  }

  /**
   * Tries the refused store again. If it can be used now, loads the files again. A load that a changed file triggers does not try that
   * store, because every such load would wait for a database that does not respond.
   */
  async #retry(): Promise<void> {
    this.#retrying = true;
    const before = this.#refused;
    const loaded = await loadInThread(this.#task(undefined));
    this.#retrying = false;
    // By now, the files may name another store, which takes effect only if someone asks for a reload.
    const isSame = this.#refused?.digest === before?.digest;
    if (this.#stopped || !isSame || !isDecided(loaded) || loaded.refused?.reason === before?.reason) return;
    this.#refused = undefined;
    await this.#reload();
  }

  #task(refused: RefusedStore | undefined): WorkerTask {
    const { file, env, running } = this.#options;
    return { file, env, running: running(), unwrapped: this.#unwrapped, refused };
  }

  /**
   * Loads the files now or, if a load is in progress, once more after it. Also tries a refused store again. Resolves once the loaded files
   * have been applied or their problems have been reported.
   */
  reload(): Promise<void> {
    this.#isAsked = true;
    return this.#reload();
  }

  /** @param isRepeated whether no file has changed since the latest load, which has refused a file */
  #reload(isRepeated = false): Promise<void> {
    clearTimeout(this.#settling);
    clearTimeout(this.#settlingAtMost);
    this.#settlingAtMost = undefined;
    if (this.#loading) return (this.#next ??= this.#load.then(() => this.#reload()));
    if (!this.#stopped) this.#load = this.#loadAndApply(isRepeated);
    return this.#load.then(() => this.#unlocking);
  }

  /** Stops watching. Later changes are not applied. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#settling);
    clearTimeout(this.#settlingAtMost);
    clearInterval(this.#polling);
    this.#thread.end();
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  async #loadAndApply(isRepeated: boolean): Promise<void> {
    this.#loading = true;
    this.#next = undefined;
    const { apply } = this.#options;
    const unwrapped = this.#unwrapped;
    const isAsked = this.#isAsked;
    this.#isAsked = false;
    // If the thread dies, a file is outdated only if it has changed since then. Otherwise, the next load would begin at once.
    const watched = new Map([...this.#files.keys()].map((name) => [name, readVersion(name)]));
    const task = this.#task(isAsked ? undefined : this.#refused);
    const loaded = await loadInThread(task, { watched, thread: this.#thread });
    this.#loading = false;
    const locked = lockedKeys(loaded);
    const tellsOfStore = isDecided(loaded);
    if (tellsOfStore) this.#refused = loaded.refused;
    this.#hasFailed = loaded.refused === undefined && (!loaded.sidecar.ok || loaded.accounts?.ok === false);
    if (locked !== undefined) this.#isAsked ||= isAsked;
    // If the store was refused, the unwrapped keys are kept, because otherwise the KMS would be asked at each load. A key that could not be
    // unwrapped is not kept, so the next load asks for it again.
    const isInForce = tellsOfStore && loaded.refused === undefined;
    if (this.#unwrapped === unwrapped)
      this.#unwrapped = isInForce ? [] : unwrapped.filter(({ key }) => key !== undefined);
    if (this.#stopped) return;
    this.watch(loaded.files);
    apply({ ...loaded, isRepeated, ...(locked && { sidecar: undefined }) });
    if (locked !== undefined) this.#unlocking ??= this.#unlock(locked);
  }

  /**
   * Asks the KMS to unwrap master keys, and then loads the files again. The KMS may be slow or unavailable. Files that change before it
   * responds are applied at once, so that a revoked key does not keep working until then.
   */
  async #unlock(locked: LockedKeys): Promise<void> {
    const { unwrap, log } = this.#options;
    const keys = await unwrap(locked).catch((error: Error) => {
      log.error({ cause: error.name }, 'calling the KMS failed: the current configuration is kept');
    });
    this.#unlocking = undefined;
    if (keys === undefined) return;
    this.#unwrapped = keys;
    await this.#reload();
  }

  #watchFolder(folder: string): void {
    try {
      // The folder is watched, not the file, because Kubernetes swaps the symlink `..data` and editors rename files, which would end a
      // watch on the file.
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || name === '..data' || this.#files.has(join(folder, name))) this.#changed();
      });
      this.#watched.set(folder, { watcher, identity: readIdentity(folder) });
      this.#unwatched.delete(folder);
      watcher.on('error', (error) => {
        watcher.close();
        this.#watched.delete(folder);
        this.#failed(folder, error);
      });
    } catch (error) {
      this.#failed(folder, error);
    }
  }

  /** Logs the first failure to watch a folder. Each poll tries again to watch it. */
  #failed(folder: string, error: unknown): void {
    const { code } = error as NodeJS.ErrnoException;
    // Loading reports a folder that does not exist.
    if (code === 'ENOENT' || this.#unwatched.has(folder)) return;
    this.#unwatched.add(folder);
    const message = `a folder cannot be watched: changes are seen within ${pollInterval / 1_000} seconds instead of one`;
    this.#options.log.warn({ folder, cause: code }, message);
  }

  #changed(): void {
    clearTimeout(this.#settling);
    const reload = (): void => void this.#reload();
    this.#settling = setTimeout(reload, settleTime).unref();
    this.#settlingAtMost ??= setTimeout(reload, maxSettleTime).unref();
  }
}

/** Whether a load has found out if the store can be used. It has not if the settings are invalid or wait for the KMS. */
function isDecided(loaded: LoadedFiles): boolean {
  return loaded.refused !== undefined || (loaded.sidecar.ok && lockedKeys(loaded) === undefined);
}

/** Text that distinguishes a folder from another folder of the same name; empty if there is no folder. */
function readIdentity(folder: string): string {
  const stats = readStats(folder);
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}`;
}
