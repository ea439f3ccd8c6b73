import { parentPort, workerData } from 'node:worker_threads';
import { loadConfig, type Env } from './load.ts';
import { packAccount, type WorkerMessage } from './load-messages.ts';

/** Accounts in one message: few enough that taking them in never holds the request thread up. */
const batch = 100;

const { file, env } = workerData as { file: string; env: Env };
const post = (message: WorkerMessage): void => parentPort?.postMessage(message);
const loaded = loadConfig(file, env);
if (loaded.ok) {
  const { accounts, ...config } = loaded.config;
  for (let i = 0; i < accounts.length; i += batch) {
    post({ kind: 'accounts', accounts: accounts.slice(i, i + batch).map(packAccount) });
  }
  post({ kind: 'loaded', config, warnings: loaded.warnings, files: loaded.files });
} else {
  post({ kind: 'invalid', problems: loaded.problems, files: loaded.files });
}
