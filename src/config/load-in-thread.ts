import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Account } from '../accounts/account.ts';
import { AccountsError } from '../accounts/accounts-error.ts';
import type { MasterKey } from '../accounts/master-key.ts';
import { unpackCodec } from '../envelope/formats.ts';
import { IdleThread, ThreadEnded } from '../thread.ts';
import { problemWithFile } from '../yaml/file-problem.ts';
import type { FileVersions } from '../yaml/files.ts';
import { withCodecs, type WorkerMessage, type WorkerRequest, type WorkerTask } from './load-messages.ts';
import { lockedKeys, type LoadedFiles, type LockedKeys } from './loaded.ts';

/** Asks a KMS to unwrap master keys. */
export type UnwrapKeys = (locked: LockedKeys) => Promise<readonly MasterKey[]>;

/** Timeout for reading, in milliseconds. It is never reached under supported load. */
const deadline = 300_000;

/** The options of `loadInThread`. */
interface LoadOptions {
  /** The files in the result if the thread dies. Default: none. */
  readonly watched?: FileVersions;
  /** Called on this thread if master keys are locked. The files are then read again. Without `unwrap`, the keys stay locked. */
  readonly unwrap?: UnwrapKeys;
  /** A first attempt at the same task, which has already begun. */
  readonly first?: Promise<LoadedFiles>;
  /** The thread to use. Default: a thread that ends as soon as it is idle. */
  readonly thread?: LoadThread;
}

/**
 * Runs `loadFiles` on another thread, so that this thread can keep serving requests. The memory for libraries and text is freed when the
 * other thread ends. If the thread dies, the result is a problem with each of the two files.
 *
 * @throws AccountsError from `unwrap`
 */
export async function loadInThread(
  task: WorkerTask,
  { watched = new Map(), unwrap, first, thread = new LoadThread() }: LoadOptions = {},
): Promise<LoadedFiles> {
  try {
    for (let { unwrapped = [] } = task; ;) {
      const reading = unwrapped.length === 0 ? first : undefined;
      const loaded = await (reading ?? thread.load({ ...task, unwrapped }));
      const locked = lockedKeys(loaded);
      if (unwrap === undefined || locked === undefined) return loaded;
      unwrapped = [...unwrapped, ...(await unwrap(locked))];
    }
  } catch (error) {
    if (error instanceof AccountsError) throw error;
    const content = { ok: false, problems: [problemWithFile(task.file, describeFailure(error))] } as const;
    return { sidecar: content, accounts: { ...content, revocable: [] }, files: watched, digests: {} };
  }
}

/** Begins a first attempt to load the files, whose result `loadInThread` uses later. */
export function beginReading(task: WorkerTask): Promise<LoadedFiles> {
  const files = new LoadThread().load(task);
  // The attempt may fail before anyone waits for its result.
  files.catch(() => {});
  return files;
}

/** Loads one task at a time on another thread, which is started when a task needs it. */
export class LoadThread {
  readonly #idleTime: number;
  readonly #thread = new IdleThread<WorkerRequest, WorkerMessage>('load-worker', import.meta.url, () => undefined);

  /**
   * @param idleTime how long the thread waits for another task, in milliseconds. A thread that is already running loads the files in a
   *   third of the time. This matters if operators may change the accounts file, because the token of a single account can make one change
   *   after another
   */
  constructor(idleTime = 0) {
    this.#idleTime = idleTime;
  }

  async load(task: WorkerTask): Promise<LoadedFiles> {
    const thread = this.#thread.wake();
    const overdue = setTimeout(() => void thread.end(`after ${deadline / 60_000} minutes`), deadline).unref();
    const accounts: Account[] = [];
    let idleTime = 0;
    try {
      let message = await thread.ask({ ...task, env: { ...task.env } });
      while (!('sidecar' in message)) {
        accounts.push(...message.map((account) => withCodecs(account, unpackCodec)));
        // Gives other events a turn. Otherwise, Node would deliver all messages that have already arrived one right after another.
        await nextTurn();
        message = await thread.ask('next');
      }
      const { accounts: read, sidecar } = message;
      if (read !== undefined && sidecar.ok && sidecar.value.operators !== undefined) idleTime = this.#idleTime;
      return { ...message, accounts: read?.ok === true ? { ...read, value: accounts } : read };
    } finally {
      clearTimeout(overdue);
      this.#thread.rest(idleTime);
    }
  }

  /** Ends the thread. A task in progress fails. */
  end(): void {
    void this.#thread.end();
  }
}

/** Says why loading failed. The error's own message is omitted, because it may quote a file. */
function describeFailure(error: unknown): string {
  const { code, name } = error as NodeJS.ErrnoException;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return 'there is not enough memory to load it';
  const cause = error instanceof ThreadEnded ? error.message : typeof code === 'string' ? code : name;
  return `loading failed (${cause}): run "check" for details`;
}
