import { isDeepStrictEqual } from 'node:util';
import { replyWith } from '../thread.ts';
import { loadFiles } from './load.ts';
import type { StoreSettings } from './config.ts';
import { lockedKeys, type FileContent, type LoadedFiles } from './loaded.ts';
import { withCodecs, type WorkerMessage, type WorkerRequest, type WorkerTask } from './load-messages.ts';
import { isRefusalOf, tryStore } from './try-store.ts';

/**
 * Maximum number of problems per file that are sent during a reload. There is a maximum because the receiving thread, which serves
 * requests, logs each of them.
 */
const maxProblems = 100;

/** Number of accounts in one message. It is small, so that receiving a message never blocks the thread that serves requests. */
const batch = 100;

let messages: AsyncGenerator<WorkerMessage> | undefined;
replyWith(async (request: WorkerRequest) => {
  if (request !== 'next') messages = createMessages(request);
  return (await messages?.next())?.value;
});

async function* createMessages(task: WorkerTask): AsyncGenerator<WorkerMessage> {
  const { running } = task;
  const { sidecar, accounts, ...rest } = await loadForSidecar(task);
  const all = accounts?.ok === true ? accounts.value : [];
  for (let i = 0; i < all.length; i += batch) {
    yield all.slice(i, i + batch).map((account) => withCodecs(account, (codec) => codec.pack()));
  }
  const withoutAccounts = accounts?.ok === true ? { ...accounts, value: [] } : accounts;
  const most = running === undefined ? Infinity : maxProblems;
  yield {
    sidecar: shortened(withSharedKeys(sidecar, running), most),
    accounts: withoutAccounts && shortened(withoutAccounts, most),
    ...rest,
  };
}

/** Reads the files. If they name a store other than the current one, tries that store. */
async function loadForSidecar({ file, env, running, unwrapped, refused }: WorkerTask): Promise<LoadedFiles> {
  const loaded = loadFiles(file, env, running, unwrapped);
  const { sidecar, accounts } = loaded;
  if (running === undefined || !sidecar.ok || lockedKeys(loaded) !== undefined) return loaded;
  const inFile = accounts?.ok === true ? accounts.value.length : 0;
  const { store } = sidecar.value;
  // If the store settings are the same, the running process keeps its store.
  if (isDeepStrictEqual(store, running)) return loaded;
  const refusal = isRefusalOf(refused, store) ? refused : await tryStore(store, running, inFile);
  if (refusal === undefined) return loaded;
  const kept = loadFiles(file, env, running, unwrapped, undefined, refusal.reason);
  return { ...kept, refused: refusal };
}

/**
 * Replaces each key that the running process already has with the same key object, so that a reload does not add another copy of the key.
 */
function withSharedKeys(sidecar: LoadedFiles['sidecar'], running: StoreSettings | undefined): LoadedFiles['sidecar'] {
  if (!sidecar.ok || running === undefined) return sidecar;
  const { store } = sidecar.value;
  const masterKeys = store.masterKeys.map((own) => {
    const same = running.masterKeys.find(({ key }) => own.key !== undefined && key?.equals(own.key) === true);
    return same === undefined ? own : { ...own, key: same.key };
  });
  return { ...sidecar, value: { ...sidecar.value, store: { ...store, masterKeys } } };
}

/** Keeps the first problems, and says how many more there are. */
function shortened<Content extends FileContent<unknown>>(content: Content, most: number): Content {
  if (content.ok) return content;
  const { problems } = content;
  const next = problems[most];
  if (next === undefined) return content;
  const more = { ...next, message: `and ${problems.length - most} more problems from here on` };
  return { ...content, problems: [...problems.slice(0, most), more] };
}
