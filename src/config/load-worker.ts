import { parentPort, workerData } from 'node:worker_threads';
import type { Env } from '../yaml/values.ts';
import { loadConfig } from './load.ts';
import { packAccount, type WorkerMessage } from './load-messages.ts';

/** Accounts in one message: few enough that taking them in never holds the request thread up. */
const batch = 100;

const { file, env } = workerData as { file: string; env: Env };
const messages = messagesOf(file, env);

// One message at a time, and the next one when it is asked for: a whole queue would be taken in without a pause.
parentPort?.on('message', send);
send();

function send(): void {
  const next = messages.next();
  if (next.done === true) parentPort?.close();
  else parentPort?.postMessage(next.value);
}

function* messagesOf(path: string, variables: Env): Generator<WorkerMessage> {
  const loaded = loadConfig(path, variables);
  if (!loaded.ok) {
    yield { kind: 'invalid', problems: loaded.problems, files: loaded.files };
    return;
  }
  const { accounts, ...config } = loaded.config;
  for (let i = 0; i < accounts.length; i += batch) {
    yield { kind: 'accounts', accounts: accounts.slice(i, i + batch).map(packAccount) };
  }
  yield { kind: 'loaded', config, warnings: loaded.warnings, files: loaded.files };
}
