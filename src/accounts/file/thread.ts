import { FairQueue } from '../../fair-queue.ts';
import { Thread } from '../../thread.ts';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';
import type { EnableOptions } from '../changes.ts';
import type { MasterKey } from '../master-key.ts';
import type { ChangeRequest } from '../operations.ts';
import { createOperationsClient, type OperationCall } from '../operations-rpc.ts';
import type { AppendedEvent, Hints } from '../store.ts';
import type { FileStoreOptions } from './store.ts';
import type { EpochMs } from '../../times.ts';

/**
 * How long an idle thread waits for another operation before it ends, in milliseconds. Starting a thread takes longer
 * than most operations.
 */
const idleTime = 10_000;

/** An operation for the thread, which sends one reply. */
export interface OperationRequest extends OperationCall {
  readonly now: EpochMs;
}

/** The result of an operation and the changes to be logged, or its `AccountsError`. */
export type OperationReply =
  | { readonly result: unknown; readonly events: readonly AppendedEvent[] }
  | { readonly code: AccountsErrorCode; readonly message: string };

/** What the thread is started with. */
export interface OperationsWorkerData extends FileStoreOptions {
  readonly masterKeys: readonly MasterKey[];
  readonly isUrgent: boolean;
  /** As of `OperationsOptions`. */
  readonly maxKeyAge?: number | undefined;
}

export interface OperationsThreadOptions extends Omit<OperationsWorkerData, 'isUrgent'> {
  readonly clock: () => EpochMs;
  /** Called after each change. */
  readonly audit: (event: AppendedEvent) => void;
}

/** Whether an operation does not wait for others: it ends what a leaked key can do, or tells whether that is in force. */
function isUrgent({ name, arguments: [, first, option] }: OperationCall): boolean {
  if (name === 'setActive') return first === false;
  if (name === 'stored') return (first as Hints | undefined)?.urgent === true;
  // The end of a grace, and new credentials for leaked ones.
  if (name === 'changeGrace') return option === undefined;
  if (name === 'enableEncryption') return (option as EnableOptions).replace;
  return name === 'revokeKey' || name === 'disableEncryption';
}

/** Whether it may take away what a leaked key can do, or tell whether that is in force. With many accounts others take a second each. */
function goesFirst({ name }: OperationCall): boolean {
  return name === 'revokeKey' || name === 'setActive' || name === 'stored';
}

/** Who asks for an operation, as far as it says so; otherwise the account that is read. */
function ownerOf({ arguments: asked }: OperationCall): string {
  const request = asked.find((each) => typeof each === 'object' && each !== null && 'actor' in each);
  return request === undefined ? String(asked[0]) : (request as ChangeRequest).actor;
}

/**
 * Carries out operations on an accounts' file on separate threads, because reading and writing the file takes up to a second: urgent
 * ones on a thread of their own, each thread one at a time.
 */
export class OperationsThreads {
  readonly operations = createOperationsClient((call) => (isUrgent(call) ? this.#urgent : this.#others).carryOut(call));
  readonly #urgent: OperationsThread;
  readonly #others: OperationsThread;

  constructor(options: OperationsThreadOptions) {
    this.#urgent = new OperationsThread(options, true);
    this.#others = new OperationsThread(options, false);
  }

  /** Ends the threads after the requested operations. */
  async close(): Promise<void> {
    await Promise.all([this.#urgent.close(), this.#others.close()]);
  }
}

/** The thread starts with the first operation and ends when it is idle, which saves the memory of its parsers. */
class OperationsThread {
  readonly #options: OperationsThreadOptions;
  readonly #isUrgent: boolean;
  readonly #first = new FairQueue<string>();
  readonly #others = new FairQueue<string>();
  #wasFirst = false;
  #isBusy = false;
  /** The operations that are not over. */
  readonly #pending = new Set<Promise<unknown>>();
  #thread: Thread<OperationRequest, OperationReply> | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: OperationsThreadOptions, isUrgent: boolean) {
    this.#options = options;
    this.#isUrgent = isUrgent;
  }

  async carryOut(call: OperationCall): Promise<unknown> {
    const turn = Promise.withResolvers<void>();
    (goesFirst(call) ? this.#first : this.#others).add(ownerOf(call), turn.resolve);
    const result = turn.promise
      .then(() => this.#ask(call))
      .finally(() => {
        this.#pending.delete(result);
        this.#startNext();
      });
    this.#pending.add(result);
    if (!this.#isBusy) this.#startNext();
    return result;
  }

  async close(): Promise<void> {
    // Others may be asked for meanwhile.
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    clearTimeout(this.#idle);
    await this.#thread?.end();
  }

  #startNext(): void {
    // Turn about, or those who revoke again and again would keep all others waiting.
    const first = this.#wasFirst ? undefined : this.#first.shift();
    this.#wasFirst = first !== undefined;
    const start = first ?? this.#others.shift() ?? this.#first.shift();
    this.#isBusy = start !== undefined;
    start?.();
  }

  async #ask(call: OperationCall): Promise<unknown> {
    clearTimeout(this.#idle);
    const { clock, audit, file, env, masterKeys, origin, auditKeys, maxKeyAge } = this.#options;
    if (this.#thread?.hasEnded !== false) {
      const data: OperationsWorkerData = {
        file,
        env: { ...env },
        masterKeys,
        origin,
        auditKeys,
        maxKeyAge,
        isUrgent: this.#isUrgent,
      };
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
