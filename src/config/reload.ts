import { statSync, watch, type FSWatcher, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Env } from '../yaml/values.ts';
import { loadInThread } from './load-in-thread.ts';
import type { StoreSettings } from './config.ts';
import type { LoadedFiles } from './loaded.ts';

/** A file is often written in several steps. It is read this long after the last one. Milliseconds. */
const settleTime = 100;

/** A file that is written continuously is read this long after the first step. Milliseconds. */
const maxSettleTime = 500;

/** A watched folder. It may be replaced by another one of the same name. */
interface Watched {
  readonly watcher: FSWatcher;
  readonly identity: string;
}

interface ReloaderOptions {
  /** The sidecar's file. */
  readonly file: string;
  readonly env: Env;
  /** Epoch milliseconds: compared with the times of files. */
  readonly clock: () => number;
  /** The store in force. */
  readonly running: () => StoreSettings;
  readonly apply: (loaded: LoadedFiles) => void;
}

/** Watches the files of the configuration and passes their content to `apply`, read and validated on another thread. */
export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #watched = new Map<string, Watched>();
  #files: ReadonlySet<string> = new Set();
  #settling: NodeJS.Timeout | undefined;
  #settlingAtMost: NodeJS.Timeout | undefined;
  #loading = false;
  #again = false;
  #stopped = false;

  constructor(options: ReloaderOptions) {
    this.#options = options;
  }

  /**
   * Watches `files` (absolute paths) and no others.
   *
   * @param readSince when reading them began, epoch milliseconds: a file that has changed since is read again
   */
  watch(files: readonly string[], readSince: number): void {
    this.#files = new Set(files);
    const folders = new Set(files.map((file) => dirname(file)));
    for (const [folder, { watcher, identity }] of this.#watched) {
      // Watches that are still needed are kept, because their pending events would be lost.
      if (folders.has(folder) && identityOf(folder) === identity) continue;
      watcher.close();
      this.#watched.delete(folder);
    }
    const added = [...folders].filter((folder) => !this.#watched.has(folder));
    for (const folder of added) this.#watchFolder(folder);
    const unwatched = [...added, ...files.filter((file) => added.includes(dirname(file)))];
    if (unwatched.some((path) => changedSince(path, readSince))) this.#changed();
  }

  /** Loads now, or once more after the load in progress. */
  reload(): void {
    clearTimeout(this.#settling);
    clearTimeout(this.#settlingAtMost);
    this.#settlingAtMost = undefined;
    if (this.#loading) {
      this.#again = true;
      return;
    }
    void this.#loadAndApply();
  }

  /** Stops watching. Later changes are not applied. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#settling);
    clearTimeout(this.#settlingAtMost);
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  async #loadAndApply(): Promise<void> {
    this.#loading = true;
    this.#again = false;
    const { file, env, clock, running, apply } = this.#options;
    const readSince = clock();
    const loaded = await loadInThread({ file, env, running: running() }, [...this.#files]);
    this.#loading = false;
    if (this.#stopped) return;
    this.watch(loaded.files, readSince);
    apply(loaded);
    if (this.#again) this.reload();
  }

  #watchFolder(folder: string): void {
    try {
      // The folder, not the file: Kubernetes swaps the symlink `..data` and editors rename, which would end a watch on the
      // file.
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || name === '..data' || this.#files.has(join(folder, name))) this.#changed();
      });
      this.#watched.set(folder, { watcher, identity: identityOf(folder) });
      watcher.on('error', () => {
        watcher.close();
        this.#watched.delete(folder);
      });
    } catch {
      // The folder does not exist: loading has reported it, and the watch is tried again after the next reload.
    }
  }

  #changed(): void {
    clearTimeout(this.#settling);
    const reload = (): void => this.reload();
    this.#settling = setTimeout(reload, settleTime).unref();
    this.#settlingAtMost ??= setTimeout(reload, maxSettleTime).unref();
  }
}

/** Distinguishes a folder from another one of the same name; empty if there is none. */
function identityOf(folder: string): string {
  const stats = statsOf(folder);
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}`;
}

/** Whether a file, or a folder's list of entries, has changed. @param time epoch milliseconds */
function changedSince(path: string, time: number): boolean {
  return (statsOf(path)?.ctimeMs ?? 0) >= time;
}

/** Undefined if there is no file or no access to it, which loading reports. */
function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
