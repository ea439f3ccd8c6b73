import { parentPort, workerData } from 'node:worker_threads';
import { loadFiles } from './load.ts';
import { packAccount, type WorkerMessage, type WorkerTask } from './load-messages.ts';

/** Accounts in one message: few enough that taking them in never holds the request thread up. */
const batch = 100;

const messages = messagesOf(workerData as WorkerTask);

// One message at a time, and the next one when it is asked for: a whole queue would be taken in without a pause.
parentPort?.on('message', send);
send();

function send(): void {
  const next = messages.next();
  if (next.done === true) parentPort?.close();
  else parentPort?.postMessage(next.value);
}

function* messagesOf({ file, env, running }: WorkerTask): Generator<WorkerMessage> {
  const { sidecar, accounts, files } = loadFiles(file, env, running);
  const all = accounts?.ok === true ? accounts.value : [];
  for (let i = 0; i < all.length; i += batch) {
    yield { kind: 'accounts', accounts: all.slice(i, i + batch).map(packAccount) };
  }
  yield {
    kind: 'loaded',
    sidecar,
    accounts: accounts?.ok === true ? { ...accounts, value: undefined } : accounts,
    files,
  };
}
