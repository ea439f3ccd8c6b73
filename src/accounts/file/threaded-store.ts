import { on, once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { AccountsError } from '../accounts-error.ts';
import type { FileMessage, FileReply, FileTask } from './messages.ts';
import type { FileStore, FileStoreOptions } from './store.ts';
import type { EnvironmentName } from '../api-key.ts';
import type {
  AuditEvent,
  Changed,
  Decide,
  EventFilter,
  IdempotencyKey,
  Selection,
  Store,
  StoredAccount,
  Unreadable,
} from '../store.ts';

/** How long a thread waits for another task before it ends. To start one takes longer than most tasks. Milliseconds. */
const idleTime = 10_000;

/**
 * The accounts' file as a store beside merchants' traffic: reading and writing it takes a second for some thousand
 * accounts, so a thread of its own carries the operations out, one at a time. What is decided is decided here.
 */
export class ThreadedFileStore implements Store {
  readonly recordsUse = false;
  readonly #options: FileStoreOptions;
  /** Resolves when the operation before is over. */
  #turn: Promise<void> = Promise.resolve();
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: FileStoreOptions) {
    this.#options = options;
  }

  async read(id: string): Promise<StoredAccount | undefined> {
    return this.#one({ kind: 'read', id });
  }

  async findByKey(hash: string): Promise<StoredAccount | undefined> {
    return this.#one({ kind: 'find_by_key', hash });
  }

  async *list(after?: string, _unreadable?: Unreadable, selection?: Selection): AsyncIterable<StoredAccount> {
    for await (const [accounts, reply] of this.#conversation({ kind: 'list', after, selection })) {
      yield* accounts;
      reply({ accounts: [], events: [] });
    }
  }

  async change<T>(ids: readonly string[], decide: Decide<T>, once?: IdempotencyKey): Promise<Changed<T>> {
    let changed: Changed<T> | undefined;
    const response = (existing: readonly StoredAccount[]): FileReply => {
      const { accounts, events, result, receipt } = decide(new Map(existing.map((account) => [account.id, account])));
      changed = { outcome: 'changed', result };
      return { accounts, events, receipt };
    };
    await this.#run({ kind: 'change', ids, once }, response, (receipt) => {
      if (receipt !== undefined) changed = { outcome: 'repeated', receipt };
    });
    if (changed === undefined) throw new Error('a change without a decision');
    return changed;
  }

  async changeAll(rewrite: (account: StoredAccount) => StoredAccount, event: AuditEvent): Promise<number> {
    return (await this.#onThisThread()).changeAll(rewrite, event);
  }

  async *events(filter: EventFilter, unreadable?: Unreadable): AsyncIterable<AuditEvent> {
    yield* (await this.#onThisThread()).events(filter, unreadable);
  }

  async lastUnexpectedEnvelope(account: string, environment: EnvironmentName): Promise<number | undefined> {
    return (await this.#onThisThread()).lastUnexpectedEnvelope(account, environment);
  }

  async close(): Promise<void> {
    const leave = await this.#enter();
    clearTimeout(this.#idle);
    await this.#worker?.terminate();
    leave();
  }

  /** The account that a task finds. */
  /** For what is rare or takes little. Loaded on demand, because its parsers take memory that most sidecars save. */
  async #onThisThread(): Promise<FileStore> {
    const { FileStore } = await import('./store.ts');
    return new FileStore(this.#options);
  }

  async #one(task: FileTask): Promise<StoredAccount | undefined> {
    let found: StoredAccount | undefined;
    await this.#run(task, (accounts) => {
      [found] = accounts;
      return 'enough';
    });
    return found;
  }

  /**
   * Carries a task out and replies to what its thread asks. An error that `answer` throws ends it and is thrown on.
   *
   * @param done called where it was carried out, with the receipt of what was not made again
   */
  async #run(
    task: FileTask,
    response: (accounts: readonly StoredAccount[]) => FileReply,
    done?: (receipt: string | undefined) => void,
  ): Promise<void> {
    for await (const [accounts, reply] of this.#conversation(task, done)) reply(response(accounts));
  }

  /** What a thread asks, and how to reply. A caller that leaves it early still waits until the thread has let go of the file. */
  async *#conversation(task: FileTask, done?: (receipt: string | undefined) => void): AsyncGenerator<Question> {
    const leave = await this.#enter();
    try {
      const receipt = yield* this.#withThread(task);
      done?.(receipt);
    } finally {
      leave();
    }
  }

  async *#withThread(task: FileTask): AsyncGenerator<Question, string | undefined> {
    clearTimeout(this.#idle);
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    let isAnswered = true;
    const reply = (response: FileReply): void => {
      isAnswered = true;
      worker.postMessage(response);
    };
    try {
      worker.postMessage(task);
      for await (const [message] of on(worker, 'message', { close: ['exit'] }) as AsyncIterable<[FileMessage]>) {
        if (message.kind === 'done') return message.receipt;
        if (message.kind === 'failed') throw new AccountsError(message.code, message.message);
        isAnswered = false;
        yield [message.accounts, reply];
      }
      throw new Error('a thread that ended before its task');
    } finally {
      if (!isAnswered) {
        const listening = new AbortController();
        const { signal } = listening;
        const over = Promise.race([once(worker, 'message', { signal }), once(worker, 'exit', { signal })]);
        reply('enough');
        await over;
        // The thread lives on: a listener for its end that stayed would be one more with each operation.
        listening.abort();
      }
      worker.unref();
      this.#idle = setTimeout(() => {
        // Given up first: a task that comes before it has ended needs another one.
        this.#worker = undefined;
        void worker.terminate();
      }, idleTime).unref();
    }
  }

  #start(): Worker {
    const { file, env, masterKeys } = this.#options;
    const worker = new Worker(new URL(`./worker${extname(import.meta.url)}`, import.meta.url), {
      workerData: { file, env: { ...env }, masterKeys } satisfies FileStoreOptions,
    });
    worker.once('exit', () => {
      if (this.#worker === worker) this.#worker = undefined;
    });
    return worker;
  }

  /** Waits for its turn; what is returned ends it. */
  async #enter(): Promise<() => void> {
    const before = this.#turn;
    let leave = (): void => {};
    this.#turn = new Promise((resolve) => (leave = resolve));
    await before;
    return leave;
  }
}

/** Accounts that a thread has, and how to tell it what to do with them. */
type Question = readonly [accounts: readonly StoredAccount[], reply: (reply: FileReply) => void];
