import { setTimeout as delay } from 'node:timers/promises';
import { AccountsError } from '../accounts/accounts-error.ts';
import { inspect, unwrapSample, type Inspection } from '../accounts/postgres/inspect.ts';
import { testNotifications } from '../accounts/postgres/notification-test.ts';
import { Vault } from '../accounts/vault.ts';
import type { StoredAccount } from '../accounts/store.ts';
import type { StoreSettings } from './config.ts';
import { sha256Hex } from '../cryptography.ts';

/** Maximum number of accounts whose credentials are unwrapped to test a store. */
const sampleSize = 1_000;

/**
 * How long a database may take to respond, in milliseconds. During this time, nothing else is reloaded, not even a revocation in the
 * current accounts file.
 */
const patience = 3_000;

/** Why a store cannot replace the current one. */
export interface RefusedStore {
  readonly reason: string;
  /**
   * Whether the store is tried again even if the files do not change. This is done only for the current database, because another database
   * may be an incomplete copy.
   */
  readonly mayEnd: boolean;
  /** A digest of the settings that have to change before the store is tried again. */
  readonly digest: string;
}

/** Whether this refusal applies to a store, so that the store need not be tried again. */
export function isRefusalOf(refused: RefusedStore | undefined, store: StoreSettings): refused is RefusedStore {
  return refused !== undefined && [digestOf(store), sha256Hex(placeOf(store))].includes(refused.digest);
}

/** A digest of a store. Two stores have different digests if one of them may be refused and the other accepted. */
function digestOf(store: StoreSettings): string {
  const keys = store.masterKeys.map(({ kcv, environment }) => [kcv, environment]);
  return sha256Hex(JSON.stringify([store.type, store.type === 'file' ? store.file : store.url, keys]));
}

/** Where a store is: its file, or its database regardless of the user who connects to it. */
function placeOf(store: StoreSettings): string {
  if (store.type === 'file') return store.file;
  const { host, pathname, searchParams } = new URL(store.url);
  return JSON.stringify([host, pathname, ...['host', 'port', 'dbname'].map((name) => searchParams.get(name))]);
}

/**
 * Tests whether the store that new settings name can replace the current one. Returns why it cannot; undefined if it can. Merchants must
 * not be moved to a store without accounts, or to a database that cannot be read or does not announce changes. They must not lose the
 * master key of credentials that work now. In an outage of the database, they must not lose the cache, because a store with other settings
 * starts with an empty cache.
 *
 * @param next a store other than `running`
 * @param inFile the number of accounts in the new file, if the accounts are in a file
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
      throw new AccountsError('store_unavailable', `the database did not respond within ${patience / 1_000} seconds`);
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
 * Refuses an empty store, in which no key would work. The store is not tried again automatically, because its first accounts may be part of
 * a copy, and only the person who makes the copy knows when it is complete.
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
  // If the current store is a file, it is not known here which of its credentials work.
  if (noneUnwraps || failures.length === 0 || running.type === 'file') return failures[0];
  const before = new Vault(running.masterKeys);
  for (const account of inspection.sample) {
    const failure = failureOf(account, after);
    if (failure !== undefined && failureOf(account, before) === undefined)
      return `${failure}; the account works with the current configuration`;
  }
  return undefined;
}

/** Why the credentials of an account cannot be unwrapped; undefined if they can. */
function failureOf(account: StoredAccount, vault: Vault): string | undefined {
  return unwrapSample({ sample: [account], unreadable: [] }, vault).failures[0];
}
