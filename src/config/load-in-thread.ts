import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Account } from '../accounts/account.ts';
import { displayName } from '../yaml/files.ts';
import { unpackAccount, type WorkerMessage, type WorkerTask } from './load-messages.ts';
import type { LoadedFiles } from './loaded.ts';

/** A timeout for reading that is never reached under supported load. Milliseconds. */
const deadline = 300_000;

/**
 * `loadFiles` on another thread, so that requests are served meanwhile and the memory for libraries and text is freed
 * with the thread. Never rejects: if the thread dies, both files have a problem.
 *
 * @param watched the files to name if the thread dies
 */
export function loadInThread(task: WorkerTask, watched: readonly string[]): Promise<LoadedFiles> {
  return new Promise((resolve) => {
    const accounts: Account[] = [];
    // The thread failed unexpectedly. The error's message is omitted because it may quote a file.
    const brokenOff = (cause: string): void => {
      const message =
        cause === 'ERR_WORKER_OUT_OF_MEMORY'
          ? 'there is too little memory to load it'
          : `loading failed (${cause}): run "check" for details`;
      const problems = [{ file: displayName(task.file), line: 1, column: 1, path: '.', message }];
      resolve({ sidecar: { ok: false, problems }, accounts: { ok: false, problems }, files: watched });
    };
    const worker = startWorker({ ...task, env: { ...task.env } });
    if (worker instanceof Error) {
      brokenOff(causeOf(worker));
      return;
    }
    const overdue = setTimeout(() => {
      brokenOff(`after ${deadline / 60_000} minutes`);
      void worker.terminate();
    }, deadline).unref();
    worker.on('message', (message: WorkerMessage) => {
      // Lets other events run first, because Node delivers messages that have arrived without a pause.
      setImmediate(() => worker.postMessage('next'));
      if (message.kind === 'accounts') {
        accounts.push(...message.accounts.map(unpackAccount));
      } else {
        const { sidecar, accounts: read, files } = message;
        resolve({ sidecar, accounts: read?.ok === true ? { ...read, value: accounts } : read, files });
      }
    });
    worker.on('error', (error: Error) => brokenOff(causeOf(error)));
    worker.on('exit', (code) => {
      clearTimeout(overdue);
      brokenOff(`exit code ${code}`);
    });
  });
}

/** The thread, or the error if the system refuses another thread. */
function startWorker(workerData: WorkerTask): Worker | Error {
  try {
    return new Worker(new URL(`./load-worker${extname(import.meta.url)}`, import.meta.url), { workerData });
  } catch (error) {
    return error instanceof Error ? error : new Error();
  }
}

function causeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
