import { watch, type FSWatcher } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Account } from '../accounts/account.ts';
import { unpackAccount, type WorkerMessage } from './load-messages.ts';
import type { Env, LoadResult } from './load.ts';

/** A file is often written in several steps; so long after the last one it is read. Milliseconds. */
const settleTime = 100;

/** Follows the configuration's files and hands each new state to `apply`, loaded and validated off the request thread. */
export class Reloader {
  readonly #file: string;
  readonly #env: Env;
  readonly #apply: (loaded: LoadResult) => void;
  readonly #watchers = new Map<string, FSWatcher>();
  #files: ReadonlySet<string> = new Set();
  #settling: NodeJS.Timeout | undefined;
  #loading = false;
  #again = false;

  constructor(file: string, env: Env, apply: (loaded: LoadResult) => void) {
    this.#file = file;
    this.#env = env;
    this.#apply = apply;
  }

  /** Watches `files` (absolute paths), and no others any more. */
  watch(files: readonly string[]): void {
    this.#files = new Set(files);
    const folders = new Set(files.map((file) => dirname(file)));
    for (const [folder, watcher] of this.#watchers) {
      // One that goes on being needed stays: what it has seen but not told yet would be lost.
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#watchFolder(folder);
  }

  /** Loads now; if that is under way, once more afterwards. */
  reload(): void {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    this.#again = false;
    void this.#load().then((loaded) => {
      this.#loading = false;
      this.watch(loaded.files);
      this.#apply(loaded);
      if (this.#again) this.reload();
    });
  }

  stop(): void {
    clearTimeout(this.#settling);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #watchFolder(folder: string): void {
    try {
      // The folder, not the file: Kubernetes swaps the symlink `..data`, and editors rename; either ends a watch on the
      // file itself.
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || name === '..data' || this.#files.has(join(folder, name))) this.#changed();
      });
      this.#watchers.set(folder, watcher);
      watcher.on('error', () => {
        watcher.close();
        this.#watchers.delete(folder);
      });
    } catch {
      // A folder that is not there: loading has reported it, and watching is tried again after the next reload.
    }
  }

  #changed(): void {
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.reload(), settleTime).unref();
  }

  #load(): Promise<LoadResult> {
    return new Promise((resolve, reject) => {
      const accounts: Account[] = [];
      const worker = new Worker(new URL(`./load-worker${extname(import.meta.url)}`, import.meta.url), {
        workerData: { file: this.#file, env: { ...this.#env } },
      });
      worker.on('message', (message: WorkerMessage) => {
        if (message.kind === 'accounts') accounts.push(...message.accounts.map(unpackAccount));
        else if (message.kind === 'loaded') resolve({ ...message, ok: true, config: { ...message.config, accounts } });
        else resolve({ ...message, ok: false });
      });
      worker.on('error', reject);
    });
  }
}
