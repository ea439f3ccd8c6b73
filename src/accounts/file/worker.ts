import { constants, setPriority } from 'node:os';
import { workerData } from 'node:worker_threads';
import { replyWith } from '../../thread.ts';
import { AccountsError } from '../accounts-error.ts';
import { Operations } from '../operations.ts';
import { handleCall, isRequest } from '../operations-rpc.ts';
import type { AppendedEvent } from '../store.ts';
import { Vault } from '../vault.ts';
import { FileStore } from './store.ts';
import type { OperationReply, OperationRequest, OperationsWorkerData } from './thread.ts';

const options = workerData as OperationsWorkerData;
// Searches and long changes must not take CPU time from requests, revocations and reloads. On Linux, each thread has its own priority.
if (!options.isUrgent && process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
const store = new FileStore(options);
const vault = new Vault(options.masterKeys);

/** Stands in for the request's own `check`, which is a function of the main thread and cannot be sent to this thread. */
function check(): void {
  if (Atomics.load(options.withdrawn, 0) !== 0)
    throw new AccountsError('store_changed', 'the change is no longer permitted');
}

replyWith(async ({ now, ...call }: OperationRequest): Promise<OperationReply> => {
  const events: AppendedEvent[] = [];
  const { maxKeyAge } = options;
  const audit = (event: AppendedEvent): void => void events.push(event);
  const operations = new Operations({ store, vault, clock: () => now, audit, maxKeyAge });
  try {
    const checked = call.arguments.map((each) => (isRequest(each) ? { ...each, check } : each));
    return { result: await handleCall(operations, { ...call, arguments: checked }), events };
  } catch (error) {
    if (!(error instanceof AccountsError)) throw error;
    return { code: error.code, message: error.message };
  }
});
