import { setTimeout as delay } from 'node:timers/promises';
import { IdleThread } from '../../thread.ts';
import { AccountsError, type AccountsErrorCode } from '../accounts-error.ts';
import type { MasterKey } from '../master-key.ts';
import { createOperationsClient, findRequest, isRequest, type OperationCall } from '../operations-rpc.ts';
import type { AppendedEvent } from '../store.ts';
import type { FileStoreOptions } from './store.ts';
import { findOwnAccount, isUrgent, Waiting } from './waiting.ts';
import type { EpochMs, MonotonicMs } from '../../times.ts';

/**
 * How long an idle thread waits for another operation before it ends, in milliseconds. Starting a thread takes longer
 * than most operations.
 */
const idleTime = 10_000;

/**
 * Milliseconds between checks that an operation is still permitted. The checks are repeated because an operation may wait seconds for the
 * file's lock.
 */
const checkInterval = 100;

/**
 * The longest pause after an operation, as a multiple of the operation's duration. The urgent thread pauses so that another thread can
 * finish its operation. After a change that an account's own token asked for, the account's next changes have to wait.
 */
const restFactor = 3;

/**
 * The longest pause of the urgent thread while the other thread carries out an operation for an account's token, in milliseconds. It is
 * short, because operators' revocations also have to wait until the pause is over.
 */
const maxRestForAccounts = 100;

/**
 * The longest pause between changes that an account's own tokens ask for, in milliseconds. An account with a thousand keys takes a second
 * to write. Without pauses, its tokens could keep all other reads and changes waiting by asking for one change after another. The pause
 * after an urgent change is shorter, because the account's own revocations may have to wait until it is over.
 */
const maxRestOfAccount = 5_000;
const maxUrgentRest = 1_000;

/** An operation that is sent to the thread, which sends back one reply. */
export interface OperationRequest extends OperationCall {
  readonly now: EpochMs;
}

/** The result of an operation and the events to be logged, or its `AccountsError`. */
export type OperationReply =
  | { readonly result: unknown; readonly events: readonly AppendedEvent[] }
  | { readonly code: AccountsErrorCode; readonly message: string };

/** The data with which a thread is started. */
export interface OperationsWorkerData extends FileStoreOptions {
  readonly masterKeys: readonly MasterKey[];
  readonly isUrgent: boolean;
  /** If not 0, the operation in progress may no longer change anything. This memory is shared by the main thread and the worker. */
  readonly withdrawn: Int32Array;
  /** As in `OperationsOptions`. */
  readonly maxKeyAge?: number | undefined;
}

export interface OperationsThreadOptions extends Omit<OperationsWorkerData, 'isUrgent' | 'withdrawn'> {
  readonly clock: () => EpochMs;
  readonly monotonic: () => MonotonicMs;
  /** Called with each event that was added to the trail. */
  readonly audit: (event: AppendedEvent) => void;
}

/** The call without the request's `check`, which cannot be sent to a thread. */
function sendable(call: OperationCall): OperationCall {
  return { ...call, arguments: call.arguments.map((each) => (isRequest(each) ? { ...each, check: undefined } : each)) };
}

/** Operations that read the trail. `showKey` looks up who revoked the key, and that event may be far back in the trail. */
const readsTrail: ReadonlySet<string> = new Set(['eventsPage', 'showKey']);

function isRefused(check: () => void): boolean {
  try {
    check();
    return false;
  } catch {
    return true;
  }
}

/**
 * Runs operations on an accounts file in separate threads, because reading or writing the file can take up to a second. Urgent operations
 * have a thread of their own, and so do operations that read the trail, which may take seconds. Each thread runs one operation at a time.
 */
export class OperationsThreads {
  readonly operations = createOperationsClient((call) => this.#threadFor(call).carryOut(call));
  readonly #urgent: OperationsThread;
  readonly #trail: OperationsThread;
  readonly #others: OperationsThread;

  constructor(options: OperationsThreadOptions) {
    this.#trail = new OperationsThread(options, false);
    this.#others = new OperationsThread(options, false);
    this.#urgent = new OperationsThread(options, true, this.#others);
  }

  /** Ends the threads once all requested operations have finished. */
  async close(): Promise<void> {
    await Promise.all([this.#urgent.close(), this.#trail.close(), this.#others.close()]);
  }

  #threadFor(call: OperationCall): OperationsThread {
    if (isUrgent(call)) return this.#urgent;
    return readsTrail.has(call.name) ? this.#trail : this.#others;
  }
}

/** A thread that starts with the first operation and ends when it has been idle for a while, to free the memory of its parsers. */
class OperationsThread {
  readonly #options: OperationsThreadOptions;
  readonly #isUrgent: boolean;
  readonly #withdrawn = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #waiting: Waiting;
  readonly #leavesRoomFor: OperationsThread | undefined;
  #isBusy = false;
  #isClosing = false;
  /** The operation that the thread carries out, and whether an account's token asked for it. */
  running: { readonly result: Promise<unknown>; readonly ofAccount: boolean } | undefined;
  /** Operations that have not finished. */
  readonly #pending = new Set<Promise<unknown>>();
  readonly #thread = new IdleThread<OperationRequest, OperationReply>('worker', import.meta.url, () => this.#data());

  /**
   * @param leavesRoomFor another thread. After each operation, this thread waits for the other thread's current operation, because a change
   *   in the other thread must start again whenever this thread changes the file. An account may have any number of tokens, so this thread
   *   waits for an operation that such a token asked for only if its own last operation was asked for by such a token as well
   */
  constructor(options: OperationsThreadOptions, isUrgent: boolean, leavesRoomFor?: OperationsThread) {
    this.#options = options;
    this.#isUrgent = isUrgent;
    // In the urgent thread, reads go first, because they tell operators whether a change has taken effect.
    this.#waiting = new Waiting(isUrgent);
    this.#leavesRoomFor = leavesRoomFor;
  }

  async carryOut(call: OperationCall): Promise<unknown> {
    const turn = Promise.withResolvers<void>();
    this.#waiting.add(call, turn.resolve);
    const result = turn.promise.then(() => this.#run(call)).finally(() => this.#pending.delete(result));
    this.#pending.add(result);
    if (!this.#isBusy) this.#startNext();
    return result;
  }

  async #run(call: OperationCall): Promise<unknown> {
    const { monotonic } = this.#options;
    const began = monotonic();
    const result = this.#ask(call);
    const account = findOwnAccount(call);
    const ofAccount = account !== undefined;
    this.running = { result, ofAccount };
    try {
      return await result;
    } finally {
      this.running = undefined;
      const maxRest = this.#isUrgent ? maxUrgentRest : maxRestOfAccount;
      if (ofAccount) this.#rest(account, Math.min(restFactor * (monotonic() - began), maxRest));
      const other = this.#leavesRoomFor?.running;
      if (other === undefined || (other.ofAccount && !ofAccount)) this.#startNext();
      else {
        const rest = delay(
          Math.min(restFactor * (monotonic() - began), other.ofAccount ? maxRestForAccounts : Infinity),
        );
        void Promise.race([other.result.catch(() => {}), rest]).then(() => this.#startNext());
      }
    }
  }

  #rest(account: string, time: number): void {
    if (this.#isClosing) return;
    const { resting } = this.#waiting;
    resting.add(account);
    setTimeout(() => {
      resting.delete(account);
      if (!this.#isBusy) this.#startNext();
    }, time).unref();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#waiting.resting.clear();
    if (!this.#isBusy) this.#startNext();
    // More operations may be requested while the pending ones finish.
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    await this.#thread.end();
  }

  #startNext(): void {
    const start = this.#waiting.shift();
    this.#isBusy = start !== undefined;
    start?.();
  }

  async #ask(call: OperationCall): Promise<unknown> {
    const check = findRequest(call)?.check;
    check?.();
    const { clock, audit } = this.#options;
    const thread = this.#thread.wake();
    Atomics.store(this.#withdrawn, 0, 0);
    const checks = check && setInterval(() => isRefused(check) && Atomics.store(this.#withdrawn, 0, 1), checkInterval);
    try {
      const reply = await thread.ask({ ...sendable(call), now: clock() });
      if ('code' in reply) {
        // If the operation was withdrawn, `check` throws an error that says why.
        check?.();
        throw new AccountsError(reply.code, reply.message);
      }
      for (const event of reply.events) audit(event);
      return reply.result;
    } finally {
      clearInterval(checks);
      this.#thread.rest(idleTime);
    }
  }

  #data(): OperationsWorkerData {
    const { file, env, masterKeys, origin, auditKeys, maxKeyAge } = this.#options;
    return {
      file,
      env: { ...env },
      masterKeys,
      origin,
      auditKeys,
      maxKeyAge,
      isUrgent: this.#isUrgent,
      withdrawn: this.#withdrawn,
    };
  }
}
