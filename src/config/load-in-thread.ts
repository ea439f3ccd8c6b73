import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Account } from '../accounts/account.ts';
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
    const worker = new Worker(new URL(`./load-worker${extname(import.meta.url)}`, import.meta.url), {
      workerData: { file, env: { ...env } },
    });
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
    // Whatever the files do to the thread that reads them, this one goes on. The error's message could quote them.
    const brokenOff = (cause: string): void => {
      const message = `loading broke off (${cause}): "check" tells more`;
      resolve({ ok: false, problems: [{ file, line: 1, column: 1, path: '.', message }], files: otherwise });
    };
    worker.on('error', (error: Error & { code?: string }) => brokenOff(error.code ?? error.name));
    worker.on('exit', (code) => brokenOff(`exit code ${code}`));
  });
}
