import { once } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { AccountsError } from '../accounts-error.ts';
import type { FileMessage, FileReply, FileTask } from './messages.ts';
import { FileStore, type FileStoreOptions } from './store.ts';
import type { StoredAccount } from '../store.ts';

/** Accounts in one message: so few that receiving them does not delay the other thread. */
const batch = 100;

/** Thrown if the other thread replies `enough`. */
class Enough extends Error {}

const port = parentPort;
if (port === null) throw new Error('started as a program');
const post = (message: FileMessage): void => port.postMessage(message);
const options = workerData as FileStoreOptions;

for (;;) {
  // One task after the other: the other thread sends the next one when this one is done.
  const [task] = (await once(port, 'message')) as [FileTask];
  try {
    post({ kind: 'done', receipt: await carryOut(task, new FileStore(options)) });
  } catch (error) {
    if (error instanceof AccountsError) post({ kind: 'failed', code: error.code, message: error.message });
    else if (error instanceof Enough) post({ kind: 'done', receipt: undefined });
    else throw error;
  }
}

/** The receipt of a change that was made before. */
async function carryOut(task: FileTask, store: FileStore): Promise<string | undefined> {
  if (task.kind === 'change') {
    const decide = async (existing: ReadonlyMap<string, StoredAccount>) => {
      return { ...(await asked([...existing.values()])), result: undefined };
    };
    const changed = await store.change(task.ids, decide, task.once);
    return changed.outcome === 'repeated' ? changed.receipt : undefined;
  }
  if (task.kind === 'read' || task.kind === 'find_by_key') {
    const account = await (task.kind === 'read' ? store.read(task.id) : store.findByKey(task.hash));
    await asked(account === undefined ? [] : [account]);
  } else {
    let next: StoredAccount[] = [];
    for await (const account of store.list(task.after, undefined, task.selection)) {
      next.push(account);
      if (next.length < batch) continue;
      await asked(next);
      next = [];
    }
    await asked(next);
  }
  return undefined;
}

/** Sends accounts to the other thread and waits for its reply. */
async function asked(accounts: readonly StoredAccount[]): Promise<Exclude<FileReply, 'enough'>> {
  post({ kind: 'accounts', accounts });
  const [reply] = (await once(port as NonNullable<typeof port>, 'message')) as [FileReply];
  if (reply === 'enough') throw new Enough();
  return reply;
}
