import { statSync, watch, type FSWatcher, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Env } from '../yaml/values.ts';
import { loadInThread } from './load-in-thread.ts';
import type { StoreSettings } from './config.ts';
import type { LoadedFiles } from './loaded.ts';

/** A file is often written in several steps; so long after the last one it is read. Milliseconds. */
const settleTime = 100;

/** A file that never rests is read all the same, so long after the first step. Milliseconds. */
const longestSettleTime = 500;

/** A folder under watch. It may come to be another one under the same name. */
interface Watched {
  readonly watcher: FSWatcher;
  readonly identity: string;
}

export interface ReloaderOptions {
  /** The sidecar's file. */
  readonly file: string;
  readonly env: Env;
  /** Epoch milliseconds: what tells whether a file has changed since it was read. */
  readonly clock: () => number;
  /** Where the accounts in force are. */
  readonly running: () => StoreSettings;
  readonly apply: (loaded: LoadedFiles) => void;
}

/** Follows the configuration's files and hands what they say to `apply`, read and validated off the request thread. */
export class Reloader {
  readonly #file: string;
  readonly #env: Env;
  readonly #clock: () => number;
  readonly #running: () => StoreSettings;
  readonly #apply: (loaded: LoadedFiles) => void;
  readonly #watched = new Map<string, Watched>();
  #files: ReadonlySet<string> = new Set();
  #settling: NodeJS.Timeout | undefined;
  #settlingAtMost: NodeJS.Timeout | undefined;
  #loading = false;
  #again = false;
  #stopped = false;

  constructor({ file, env, clock, running, apply }: ReloaderOptions) {
    this.#file = file;
    this.#env = env;
    this.#clock = clock;
    this.#running = running;
    this.#apply = apply;
  }

  /**
   * Watches `files` (absolute paths), and no others any more.
   *
   * @param readSince when reading them began, epoch milliseconds: what has changed from then on is read again
   */
  watch(files: readonly string[], readSince: number): void {
    this.#files = new Set(files);
    const folders = new Set(files.map((file) => dirname(file)));
    for (const [folder, { watcher, identity }] of this.#watched) {
      // One that goes on being needed stays: what it has seen but not told yet would be lost.
      if (folders.has(folder) && identityOf(folder) === identity) continue;
      watcher.close();
      this.#watched.delete(folder);
    }
    const added = [...folders].filter((folder) => !this.#watched.has(folder));
    for (const folder of added) this.#watchFolder(folder);
    const unwatched = [...added, ...files.filter((file) => added.includes(dirname(file)))];
    if (unwatched.some((path) => changedSince(path, readSince))) this.#changed();
  }

  /** Loads now; if that is under way, once more afterwards. */
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

  /** From now on nothing is applied any more. */
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
    const readSince = this.#clock();
    const loaded = await loadInThread({ file: this.#file, env: this.#env, running: this.#running() }, [...this.#files]);
    this.#loading = false;
    if (this.#stopped) return;
    this.watch(loaded.files, readSince);
    this.#apply(loaded);
    if (this.#again) this.reload();
  }

  #watchFolder(folder: string): void {
    try {
      // The folder, not the file: Kubernetes swaps the symlink `..data`, and editors rename; either ends a watch on the
      // file itself.
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || name === '..data' || this.#files.has(join(folder, name))) this.#changed();
      });
      this.#watched.set(folder, { watcher, identity: identityOf(folder) });
      watcher.on('error', () => {
        watcher.close();
        this.#watched.delete(folder);
      });
    } catch {
      // A folder that is not there: loading has reported it, and watching is tried again after the next reload.
    }
  }

  #changed(): void {
    clearTimeout(this.#settling);
    const reload = (): void => this.reload();
    this.#settling = setTimeout(reload, settleTime).unref();
    this.#settlingAtMost ??= setTimeout(reload, longestSettleTime).unref();
  }
}

/** What distinguishes a folder from another one of the same name; empty where there is none. */
function identityOf(folder: string): string {
  const stats = statsOf(folder);
  return stats === undefined ? '' : `${stats.dev}:${stats.ino}`;
}

/** Whether a file's content, or what is in a folder, has changed. @param time epoch milliseconds */
function changedSince(path: string, time: number): boolean {
  return (statsOf(path)?.ctimeMs ?? 0) >= time;
}

/** Undefined where there is nothing, or nothing that may be looked at: loading reports that. */
function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
