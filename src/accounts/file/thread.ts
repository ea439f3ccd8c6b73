import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';
import { operationsBy, type OperationCall } from '../plain-operations.ts';
import type { AuditEvent } from '../store.ts';
import type { FileStoreOptions } from './store.ts';

/**
 * How long an idle thread waits for another operation before it ends, in milliseconds. Starting a thread takes longer
 * than most operations.
 */
const idleTime = 10_000;

/** An operation for the thread, which sends one reply. */
export interface OperationRequest extends OperationCall {
  /** Epoch milliseconds. */
  readonly now: number;
}

/** The result of an operation and the changes to be logged, or its `AccountsError`. */
export type OperationReply =
  | { readonly result: unknown; readonly events: readonly AuditEvent[] }
  | { readonly code: AccountsErrorCode; readonly message: string };

export interface OperationsThreadOptions extends FileStoreOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number;
  /** Called after each change. */
  readonly audit: (event: AuditEvent) => void;
}

/**
 * Carries out operations on an accounts' file, one at a time, on a separate thread, because reading and writing the
 * file takes up to a second. The thread starts with the first operation and ends when it is idle, which saves the
 * memory of its parsers.
 */
export class OperationsThread {
  readonly operations = operationsBy((call) => this.#inTurn(() => this.#ask(call)));
  readonly #options: OperationsThreadOptions;
  /** Settles when the previous operation is over. */
  #turn: Promise<unknown> = Promise.resolve();
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: OperationsThreadOptions) {
    this.#options = options;
  }

  /** Ends the thread after the requested operations. */
  async close(): Promise<void> {
    await this.#inTurn(async () => {
      clearTimeout(this.#idle);
      await this.#worker?.terminate();
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #ask(call: OperationCall): Promise<unknown> {
    clearTimeout(this.#idle);
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    // The thread is reused, so its listeners are removed after each operation.
    const listening = new AbortController();
    const { signal } = listening;
    try {
      worker.postMessage({ ...call, now: this.#options.clock() } satisfies OperationRequest);
      const ended = once(worker, 'exit', { signal }).then(() => {
        throw new Error('the thread of the accounts file ended before its operation');
      });
      const [reply] = (await Promise.race([once(worker, 'message', { signal }), ended])) as [OperationReply];
      if ('code' in reply) throw new AccountsError(reply.code, reply.message);
      for (const event of reply.events) this.#options.audit(event);
      return reply.result;
    } finally {
      listening.abort();
      worker.unref();
      this.#idle = setTimeout(() => {
        // Dropped first, because an operation that is requested before the thread has ended needs another one.
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
    const giveUp = (): void => {
      if (this.#worker === worker) this.#worker = undefined;
    };
    worker.once('error', giveUp);
    worker.once('exit', giveUp);
    return worker;
  }
}
