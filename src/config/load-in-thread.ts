import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Account } from '../accounts/account.ts';
import { AccountsError } from '../accounts/accounts-error.ts';
import { unpackCodec } from '../envelope/formats.ts';
import { Thread, ThreadEnded } from '../thread.ts';
import { problemWithFile } from '../yaml/file-problem.ts';
import { withCodecs, type WorkerMessage, type WorkerTask } from './load-messages.ts';
import type { LoadedFiles } from './loaded.ts';
import type { AnswerKeys, KeysAnswer } from './unwrap-keys.ts';

/** A timeout for reading that is never reached under supported load. Milliseconds. */
const deadline = 300_000;

/**
 * `loadFiles` on another thread, so that requests are served meanwhile and the memory for libraries and text is freed
 * with the thread. If the thread dies, both files have a problem.
 *
 * @param watched the files to name if the thread dies
 * @param answerKeys unwraps master keys, on this thread
 * @throws AccountsError of `answerKeys`
 */
export async function loadInThread(
  task: WorkerTask,
  watched: readonly string[],
  answerKeys: AnswerKeys = async ({ keys }) => keys,
): Promise<LoadedFiles> {
  try {
    return await load({ ...task, env: { ...task.env } }, answerKeys);
  } catch (error) {
    if (error instanceof AccountsError) throw error;
    const content = { ok: false, problems: [problemWithFile(task.file, messageOf(error))] } as const;
    return { sidecar: content, accounts: content, files: watched, digests: {} };
  }
}

async function load(task: WorkerTask, answerKeys: AnswerKeys): Promise<LoadedFiles> {
  const thread = new Thread<KeysAnswer, WorkerMessage>('load-worker', import.meta.url, task);
  const overdue = setTimeout(() => void thread.end(`after ${deadline / 60_000} minutes`), deadline).unref();
  const accounts: Account[] = [];
  try {
    for (let answer: KeysAnswer = []; ;) {
      const message = await thread.ask(answer);
      if ('sidecar' in message) {
        const { accounts: read } = message;
        return { ...message, accounts: read?.ok === true ? { ...read, value: accounts } : read };
      }
      if ('kms' in message) {
        answer = await answerKeys(message);
        continue;
      }
      accounts.push(...message.map((account) => withCodecs(account, unpackCodec)));
      // Lets other events run, because Node delivers messages that have arrived without a pause.
      await nextTurn();
    }
  } finally {
    clearTimeout(overdue);
    void thread.end();
  }
}

/** The error's own message is omitted, because it may quote a file. */
function messageOf(error: unknown): string {
  const { code, name } = error as NodeJS.ErrnoException;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return 'there is too little memory to load it';
  const cause = error instanceof ThreadEnded ? error.message : typeof code === 'string' ? code : name;
  return `loading failed (${cause}): run "check" for details`;
}
