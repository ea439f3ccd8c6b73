import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { AccountsError } from '../accounts/accounts-error.ts';
import { inspect, unwrapSample } from '../accounts/postgres/inspect.ts';
import { Vault } from '../accounts/vault.ts';
import type { StoredAccount } from '../accounts/store.ts';
import type { StoreSettings } from './config.ts';

/** The number of accounts whose credentials are unwrapped. */
const sampleSize = 1_000;

/** Milliseconds. Nothing else is reloaded meanwhile, such as a key that is revoked in the file in force. */
const patience = 5_000;

/**
 * Why the database that new settings name cannot replace the store in force; undefined if it can. Merchants must not be moved to a database
 * that cannot be read, lose the master key of credentials that work now, or, in an outage, the cache that a store with other settings begins anew.
 */
export async function tryStore(next: StoreSettings, running: StoreSettings): Promise<string | undefined> {
  if (next.type !== 'postgres') return undefined;
  // Then the running process keeps its store.
  if (isDeepStrictEqual(next, running)) return undefined;
  const isSame = running.type === 'postgres' && running.url === next.url;
  const keepsKeys = running.masterKeys.every(({ kcv, environment }) =>
    next.masterKeys.some((key) => key.kcv === kcv && key.environment === environment),
  );
  const end = new AbortController();
  try {
    const overdue = delay(patience, undefined, { signal: end.signal }).then(() => {
      throw new AccountsError('store_unavailable', `the database does not respond within ${patience / 1_000} seconds`);
    });
    const inspection = await Promise.race([inspect(next.url, sampleSize), overdue]);
    if (isSame && keepsKeys) return undefined;
    // Nobody's key would work.
    if (inspection.isEmpty) return 'the database has no accounts';
    const after = new Vault(next.masterKeys);
    const { noneUnwraps, failures } = unwrapSample(inspection, after);
    // What works in a file is not known here.
    if (noneUnwraps || failures.length === 0 || running.type === 'file') return failures[0];
    const before = new Vault(running.masterKeys);
    for (const account of inspection.sample) {
      const failure = failureOf(account, after);
      if (failure !== undefined && failureOf(account, before) === undefined) return `${failure}; it works now`;
    }
    return undefined;
  } catch (error) {
    if (error instanceof AccountsError) return error.message;
    throw error;
  } finally {
    end.abort();
  }
}

/** Why the credentials of an account cannot be unwrapped; undefined if they can. */
function failureOf(account: StoredAccount, vault: Vault): string | undefined {
  return unwrapSample({ sample: [account], unreadable: [] }, vault).failures[0];
}
