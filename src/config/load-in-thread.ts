import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Account } from '../accounts/account.ts';
import { displayName } from '../yaml/files.ts';
import type { Env } from '../yaml/values.ts';
import { unpackAccount, type WorkerMessage } from './load-messages.ts';
import type { LoadResult } from './load.ts';

/**
 * `loadConfig` on a thread of its own: requests are served meanwhile, and the memory that reading took, most of it for
 * libraries and text, goes with the thread. Never rejects: a thread that breaks off is a problem of the configuration.
 *
 * @param otherwise the files to name where reading broke off
 */
export function loadInThread(file: string, env: Env, otherwise: readonly string[]): Promise<LoadResult> {
  return new Promise((resolve) => {
    const accounts: Account[] = [];
    // Whatever the files do to the thread that reads them, this one goes on. The error's message could quote them.
    const brokenOff = (cause: string): void => {
      const message =
        cause === 'ERR_WORKER_OUT_OF_MEMORY'
          ? 'there is too little memory to load it'
          : `loading broke off (${cause}): "check" tells more`;
      const problem = { file: displayName(file), line: 1, column: 1, path: '.', message };
      resolve({ ok: false, problems: [problem], files: otherwise });
    };
    const worker = startWorker({ file, env: { ...env } });
    if (worker instanceof Error) {
      brokenOff(causeOf(worker));
      return;
    }
    worker.on('message', (message: WorkerMessage) => {
      // Whatever else waits comes first: messages that are there already are taken in without a pause.
      setImmediate(() => worker.postMessage('next'));
      if (message.kind === 'accounts') {
        accounts.push(...message.accounts.map(unpackAccount));
      } else if (message.kind === 'loaded') {
        const { config, warnings, files } = message;
        resolve({ ok: true, config: { ...config, accounts }, warnings, files });
      } else {
        const { problems, files } = message;
        resolve({ ok: false, problems, files });
      }
    });
    worker.on('error', (error: Error) => brokenOff(causeOf(error)));
    worker.on('exit', (code) => brokenOff(`exit code ${code}`));
  });
}

/** The thread, or why there can be none: a process may have as many as the system lets it have. */
function startWorker(workerData: { readonly file: string; readonly env: Env }): Worker | Error {
  try {
    return new Worker(new URL(`./load-worker${extname(import.meta.url)}`, import.meta.url), { workerData });
  } catch (error) {
    return error instanceof Error ? error : new Error();
  }
}

function causeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}
