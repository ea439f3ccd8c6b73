import { Thread } from '../../thread.ts';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';
import { remoteOperations, type OperationCall } from '../plain-operations.ts';
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
  readonly operations = remoteOperations((call) => this.#inTurn(() => this.#ask(call)));
  readonly #options: OperationsThreadOptions;
  /** Settles when the previous operation is over. */
  #turn: Promise<unknown> = Promise.resolve();
  #thread: Thread<OperationRequest, OperationReply> | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: OperationsThreadOptions) {
    this.#options = options;
  }

  /** Ends the thread after the requested operations. */
  async close(): Promise<void> {
    await this.#inTurn(async () => {
      clearTimeout(this.#idle);
      await this.#thread?.end();
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #ask(call: OperationCall): Promise<unknown> {
    clearTimeout(this.#idle);
    const { clock, audit, file, env, masterKeys } = this.#options;
    if (this.#thread?.hasEnded !== false) {
      const data: FileStoreOptions = { file, env: { ...env }, masterKeys };
      this.#thread = new Thread('worker', import.meta.url, data);
    }
    const thread = this.#thread;
    try {
      const reply = await thread.ask({ ...call, now: clock() });
      if ('code' in reply) throw new AccountsError(reply.code, reply.message);
      for (const event of reply.events) audit(event);
      return reply.result;
    } finally {
      this.#idle = setTimeout(() => void thread.end(), idleTime).unref();
    }
  }
}
