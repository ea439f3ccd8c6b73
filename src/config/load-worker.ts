import { workerData } from 'node:worker_threads';
import { replyWith } from '../thread.ts';
import { loadFiles } from './load.ts';
import type { FileContent } from './loaded.ts';
import { packAccount, type WorkerMessage, type WorkerTask } from './load-messages.ts';

/** Problems of a file that are sent at a reload. */
const maxProblems = 100;

/** Accounts in one message: few enough that receiving them never blocks the request thread. */
const batch = 100;

const messages = messagesOf(workerData as WorkerTask);
replyWith(() => messages.next().value);

function* messagesOf({ file, env, running }: WorkerTask): Generator<WorkerMessage> {
  const loaded = loadFiles(file, env, running);
  // Bounded, because the receiving thread serves requests and logs each problem.
  const accounts = loaded.accounts && (running === undefined ? loaded.accounts : shortened(loaded.accounts));
  const sidecar = running === undefined ? loaded.sidecar : shortened(loaded.sidecar);
  const all = accounts?.ok === true ? accounts.value : [];
  for (let i = 0; i < all.length; i += batch) {
    yield { kind: 'accounts', accounts: all.slice(i, i + batch).map(packAccount) };
  }
  yield {
    kind: 'loaded',
    sidecar,
    accounts: accounts?.ok === true ? { ...accounts, value: undefined } : accounts,
    files: loaded.files,
  };
}

/** The first problems, and how many more there are. */
function shortened<T>(content: FileContent<T>): FileContent<T> {
  const next = content.ok ? undefined : content.problems[maxProblems];
  if (content.ok || next === undefined) return content;
  const more = { ...next, message: `and ${content.problems.length - maxProblems} more problems from here on` };
  return { ok: false, problems: [...content.problems.slice(0, maxProblems), more] };
}
