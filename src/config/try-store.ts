import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from '../accounts/accounts-error.ts';
import { inspect, unwrapSample, type Inspection } from '../accounts/postgres/inspect.ts';
import { testNotifications } from '../accounts/postgres/notification-test.ts';
import { Vault } from '../accounts/vault.ts';
import type { StoredAccount } from '../accounts/store.ts';
import type { StoreSettings } from './config.ts';
import { sha256Hex } from '../cryptography.ts';

/** The number of accounts whose credentials are unwrapped. */
const sampleSize = 1_000;

/** How long a database may take, in milliseconds. Nothing else is reloaded meanwhile, not even a revocation in the file in force. */
const patience = 3_000;

/** Why a store cannot replace the one in force. */
export interface RefusedStore {
  readonly reason: string;
  /** Whether to try the store again even if the files do not change: only the database in force, because another one may be half a copy. */
  readonly mayEnd: boolean;
  /** The digest of what would have to change for the store to be tried again. */
  readonly digest: string;
}

/** Whether this refusal holds for a store, so that the store need not be tried again. */
export function isRefusalOf(refused: RefusedStore | undefined, store: StoreSettings): refused is RefusedStore {
  return refused !== undefined && [digestOf(store), sha256Hex(placeOf(store))].includes(refused.digest);
}

/** Differs for two stores if one may be refused and the other not. */
function digestOf(store: StoreSettings): string {
  const keys = store.masterKeys.map(({ kcv, environment }) => [kcv, environment]);
  return sha256Hex(JSON.stringify([store.type, store.type === 'file' ? store.file : store.url, keys]));
}

/** The file, or the database, whichever user connects to it. */
function placeOf(store: StoreSettings): string {
  if (store.type === 'file') return store.file;
  const { host, pathname, searchParams } = new URL(store.url);
  return JSON.stringify([host, pathname, ...['host', 'port', 'dbname'].map((name) => searchParams.get(name))]);
}

/**
 * Why the store that new settings name cannot replace the one in force; undefined if it can. Merchants must not be moved to a store without
 * accounts, or to a database that cannot be read or does not report changes. They must not lose the master key of credentials that work now
 * or, in an outage, the cache: a store with other settings starts with an empty one.
 *
 * @param next   a store other than `running`
 * @param inFile the number of accounts in the new file, if the accounts come from one
 */
export async function tryStore(
  next: StoreSettings,
  running: StoreSettings,
  inFile: number,
): Promise<RefusedStore | undefined> {
  const isSamePlace = placeOf(running) === placeOf(next);
  if (next.type === 'file') return isSamePlace || inFile > 0 ? undefined : isEmpty(next);
  const isSame = running.type === 'postgres' && running.url === next.url;
  const refuse = (reason: string): RefusedStore => ({ reason, mayEnd: isSamePlace, digest: digestOf(next) });
  const keepsKeys = running.masterKeys.every(({ kcv, environment }) =>
    next.masterKeys.some((key) => key.kcv === kcv && key.environment === environment),
  );
  const end = new AbortController();
  try {
    const overdue = delay(patience, undefined, { signal: end.signal }).then(() => {
      throw new AccountsError('store_unavailable', `the database does not respond within ${patience / 1_000} seconds`);
    });
    const inspection = await Promise.race([inspectForUse(next.url), overdue]);
    if (isSame && keepsKeys) return undefined;
    if (inspection.isEmpty) return isEmpty(next);
    const reason = credentialsFailure(inspection, next, running);
    return reason === undefined ? undefined : refuse(reason);
  } catch (error) {
    if (error instanceof AccountsError) return refuse(error.message);
    throw error;
  } finally {
    end.abort();
  }
}

/**
 * In an empty store, nobody's key would work. It is not tried again by itself: its first accounts may be part of a copy, and only whoever
 * makes the copy knows when it is complete.
 */
function isEmpty(store: StoreSettings): RefusedStore {
  const type = store.type === 'file' ? 'file' : 'database';
  return {
    reason: `the ${type} has no accounts: reload once it has some`,
    mayEnd: false,
    digest: sha256Hex(placeOf(store)),
  };
}

async function inspectForUse(url: string): Promise<Inspection> {
  const inspection = await inspect(url, sampleSize);
  await testNotifications(url);
  return inspection;
}

function credentialsFailure(inspection: Inspection, next: StoreSettings, running: StoreSettings): string | undefined {
  const after = new Vault(next.masterKeys);
  const { noneUnwraps, failures } = unwrapSample(inspection, after);
  // Which credentials of a file work is not known here.
  if (noneUnwraps || failures.length === 0 || running.type === 'file') return failures[0];
  const before = new Vault(running.masterKeys);
  for (const account of inspection.sample) {
    const failure = failureOf(account, after);
    if (failure !== undefined && failureOf(account, before) === undefined) return `${failure}; the account works now`;
  }
  return undefined;
}

/** Why the credentials of an account cannot be unwrapped; undefined if they can. */
function failureOf(account: StoredAccount, vault: Vault): string | undefined {
  return unwrapSample({ sample: [account], unreadable: [] }, vault).failures[0];
}
